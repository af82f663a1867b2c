"""Every error of Pyrula, in one tree that says whose fault it is.

Caller's misuse (`UsageError` and below), the operator's set-up (`ConfigurationError`, `StoreRefused`), the world
(`StoreUnavailable`), another worker (`LockLost`), changed code (`JournalMismatch`), the outcome of a run (`RunEnded`
and below), a step (`StepFailed`). Driver errors become ours at one seam in each store, cause kept. The engine handles
`LockLost` (drop the turn) and `StoreUnavailable` (back off, not ready); everything else rises to whoever can act.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRecord:
    """An error as it is stored in journal and run: a name, a sentence, and where it came from.

    `type` is a bare class name, never a module path, so that nothing stored depends on where code lives.
    """

    type: str
    message: str
    traceback: str = ""
    detail: dict[str, Json] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


class PyrulaError(Exception):
    """Root of everything Pyrula raises."""


class UsageError(PyrulaError):
    """The caller asked for something that cannot be; the message says what to do instead."""


class InputError(UsageError):
    """Input, result or argument does not fit its annotation, is not JSON, or is too large."""


class IdempotencyConflict(UsageError):
    """An idempotency key was used again with another input; `run_id` names the run that has it."""

    def __init__(self, key: str, run_id: str) -> None:
        super().__init__(
            f"idempotency key {key!r} already belongs to run {run_id}, which was submitted with another workflow or "
            f"input; use a new key, or submit the same input to get that run back"
        )
        self.key = key
        self.run_id = run_id


class RunNotFound(UsageError):
    """No run of this id is in the store."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"no run {run_id!r} in this store; check the id and the store URL")
        self.run_id = run_id


class IllegalTransition(UsageError):
    """An event that the run's state does not allow; nothing was changed."""


class ConfigurationError(PyrulaError):
    """Options, environment or app are wrong; every fault found is in `faults`, one sentence each."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = tuple(faults)


class AppImportError(ConfigurationError):
    """The app's own code failed while it was imported; `__cause__` is its error, with the traceback to show."""

    def __init__(self, module: str, error: BaseException) -> None:
        super().__init__((f"cannot import {module!r}: {type(error).__name__}: {error}",))
        self.module = module


class HookError(ConfigurationError):
    """A function of the app that an option names raised; `__cause__` is its error, with the traceback to show."""

    def __init__(self, option: str, target: str, error: BaseException) -> None:
        super().__init__((f"{option} {target!r} raised {type(error).__name__}: {error}",))


class StoreRefused(ConfigurationError):
    """The store must not be used as it is (network file system, second host, newer schema, foreign file)."""

    def __init__(self, reason: str) -> None:
        super().__init__((reason,))


class NoSupervisor(PyrulaError):
    """No supervisor answers under this name; the message says what was looked for, and where."""


class StoreUnavailable(PyrulaError):
    """The store cannot serve right now (full, read-only, locked, gone); the outcome of the call is unknown."""


class StoreCorrupt(StoreUnavailable):
    """The store's file is damaged: nothing more is written; the message says how to recover."""


class LockLost(PyrulaError):
    """Fence and nonce no longer match: another worker owns the run, so this turn must end without a trace."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"run {run_id} is no longer held by this worker")
        self.run_id = run_id


class LimitExceeded(PyrulaError):
    """A journal entry or a whole journal passed its limit; the run fails, what is recorded stays."""


class JournalMismatch(PyrulaError):
    """The code asks for something else than the journal has; the run is paused until a fitting deploy.

    `detail` says in words what both have there, what was the last to fit, and what to do.
    """

    def __init__(self, message: str, detail: dict[str, Json] | None = None) -> None:
        super().__init__(message)
        self.detail = detail or {}


class CodecFailed(PyrulaError):
    """A payload could not be encoded or decoded: the codec is missing, has another key, or raised; the cause is kept.

    A run whose worker meets this is paused, not failed: it goes on once a worker has the right codec.
    """


class BodyStuck(PyrulaError):
    """A workflow's body waits for something that can never come."""


class StepFailed(PyrulaError):
    """A step gave up: the same error live and in every replay, with the stored `error`.

    The original exception object does not survive a replay, so it is never shown to the body even in the turn that
    caught it: code that works live works replayed. Compare with `failed.error.type` or `failed.matches(SomeError)`.
    """

    def __init__(self, step: str, error: ErrorRecord, op_id: str = "") -> None:
        super().__init__(f"step {step!r} failed: {error}")
        self.step = step
        self.error = error
        self.op_id = op_id

    def matches(self, *types: type[BaseException]) -> bool:
        """Whether the step raised one of these exception classes (compared by class name)."""
        return self.error.type in {cls.__name__ for cls in types}


class StepTimeout(StepFailed):
    """A step passed its `timeout=`."""


class WaitTimeout(PyrulaError, TimeoutError):
    """A `ctx.timeout(...)` was over before what it holds; `op_id` is its operation."""

    def __init__(self, message: str, op_id: str = "") -> None:
        super().__init__(message)
        self.op_id = op_id


class SignalTimeout(WaitTimeout):
    """No signal came within the `timeout=` of a wait."""


class ChildFailed(PyrulaError):
    """A child run ended otherwise than by completing: the same live and in every replay, with the stored `error`.

    `status` is "failed", "cancelled" or "quarantined".
    """

    def __init__(self, workflow: str, run_id: str, status: str, error: ErrorRecord, op_id: str = "") -> None:
        super().__init__(f"child {workflow!r} (run {run_id}) {_ENDS.get(status, status)}: {error}")
        self.workflow = workflow
        self.run_id = run_id
        self.status = status
        self.error = error
        self.op_id = op_id

    def matches(self, *types: type[BaseException]) -> bool:
        """Whether the child raised one of these exception classes (compared by class name)."""
        return self.error.type in {cls.__name__ for cls in types}


_ENDS = {"failed": "failed", "cancelled": "was cancelled", "quarantined": "was quarantined"}


class RunTimeout(PyrulaError):
    """A run passed the `timeout=` of its workflow."""


class RunEnded(PyrulaError):
    """A run ended otherwise than by completing; `error` is what the store keeps about it."""

    def __init__(self, run_id: str, error: ErrorRecord | None) -> None:
        super().__init__(f"run {run_id} {self._verb}" + (f": {error}" if error else ""))
        self.run_id = run_id
        self.error = error

    _verb = "ended"


class RunFailed(RunEnded):
    """The run's code raised."""

    _verb = "failed"


class RunCancelled(RunEnded):
    """The run was cancelled."""

    _verb = "was cancelled"


class RunQuarantined(RunEnded):
    """The run kept blocking or killing its workers."""

    _verb = "was quarantined"


class ContinuesAsNew(BaseException):
    """Unwinds a body whose run goes on as new; `given` is the JSON document that it goes on with.

    Derives from BaseException so that no `except Exception` in a workflow takes it for a failure.
    """

    def __init__(self, given: bytes) -> None:
        super().__init__()
        self.given = given


class TurnSuspended(BaseException):
    """Unwinds a body whose turn ends without the run ending (drain, lost lock, a wait).

    Derives from BaseException so that no `except Exception` in a workflow takes a deploy for a failure; durable
    operations called while it passes through raise it again and nothing is journaled.
    """
