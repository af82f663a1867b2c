"""The client for code without an event loop: the same names, each call waiting for its answer.

It owns a thread with a loop, started by the first call, on which the asynchronous client does the work. Any number of
threads may call at once; an interrupted wait is given up on the loop as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, overload

from pyrula_runtime.client import workflow_client
from pyrula_runtime.client.bulk import Bulk, BulkResult
from pyrula_runtime.client.emitting import Emitted, WaitingEvent
from pyrula_runtime.client.handle import RunHandle
from pyrula_runtime.client.loop_thread import LoopThread
from pyrula_runtime.client.submittable import Submittable
from pyrula_runtime.client.sync_schedules import SyncSchedules
from pyrula_runtime.client.telling import RunEvent, RunSummary
from pyrula_runtime.client.workflow_client import Statuses
from pyrula_runtime.core.acts import Act
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.payloads import Codec
from pyrula_runtime.options import DAY_S
from pyrula_runtime.stores.protocol import Store

R = TypeVar("R")


class SyncRunHandle(Generic[R]):
    """A run of a store. Handles of one run are equal."""

    def __init__(self, thread: LoopThread, handle: RunHandle[R]) -> None:
        self._thread = thread
        self._handle = handle
        self.run_id = handle.run_id
        self.workflow = handle.workflow

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SyncRunHandle) and self._handle == other._handle

    def __hash__(self) -> int:
        return hash(self._handle)

    def __repr__(self) -> str:
        return repr(self._handle)

    def status(self) -> RunStatus:
        """Where the run stands."""
        return self._thread.run(self._handle.status())

    def result(self, timeout: float | None = None) -> R:
        """Wait for the run's end: its value, typed if the workflow is known to this process.

        Raises RunFailed, RunCancelled or RunQuarantined with the stored error, TimeoutError after `timeout` seconds;
        a `timeout` of 0 looks without waiting.
        """
        return self._thread.run(self._handle.result(timeout))

    def signal(self, name: str, payload: Any = None, *, message_id: str | None = None) -> None:
        """Send a signal; the run keeps it until it asks for it. The same `message_id` is delivered once."""
        self._thread.run(self._handle.signal(name, payload, message_id=message_id))

    def cancel(self) -> None:
        """Ask the run to unwind."""
        self._thread.run(self._handle.cancel())

    def pause(self) -> None:
        """Take the run from its worker and keep it until it is resumed."""
        self._thread.run(self._handle.pause())

    def resume(self) -> None:
        """Let the paused run go on."""
        self._thread.run(self._handle.resume())

    def events(self, after: int = 0, limit: int = 1000) -> tuple[RunEvent, ...]:
        """What the run has told since the event `after`, in order, at most `limit`; see RunEvent."""
        return self._thread.run(self._handle.events(after, limit))

    def describe(self) -> dict[str, Any]:
        """The run in full, with its journal."""
        return self._thread.run(self._handle.describe())


class SyncBulk:
    """An act on its way from run to run: iterating does it, one run at a time, and tells of each.

    `done`, `refused` and `left` are right at any moment, also after an interrupt: whatever was begun is finished.
    """

    def __init__(self, thread: LoopThread, bulk: Bulk) -> None:
        self._thread = thread
        self._bulk = bulk

    @property
    def done(self) -> int:
        """To how many it was done."""
        return self._bulk.done

    @property
    def refused(self) -> int:
        """To how many it could not be done."""
        return self._bulk.refused

    @property
    def left(self) -> int:
        """How many are still as they were."""
        return self._bulk.left

    def __iter__(self) -> Iterator[BulkResult]:
        return self

    def __next__(self) -> BulkResult:
        if (result := self._thread.run(self._next())) is None:
            raise StopIteration
        return result

    async def _next(self) -> BulkResult | None:
        return await anext(self._bulk, None)


class WorkflowClient:
    """A client of one store, which is opened at its first use and closed with it. For use from any thread."""

    def __init__(self, store: Store, *, idempotency_ttl: float = DAY_S, codec: Codec | None = None) -> None:
        """A client of `store`; an idempotency key finds the run it first submitted for `idempotency_ttl` seconds.

        `codec` is what inputs, results, outcomes, errors and signals pass through; the workers need the same one.
        """
        self._client = workflow_client.WorkflowClient(store, idempotency_ttl=idempotency_ttl, codec=codec)
        self._thread = LoopThread()

    def __enter__(self) -> Self:
        self._thread.run(self._client.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the client and its store. Idempotent; whoever still waits for a result gets a UsageError."""
        self._thread.close(self._client.close())

    @overload
    def submit(
        self,
        workflow: Submittable[R],
        input: Any = None,
        *,
        idempotency_key: str | None = None,
        run_id: str | None = None,
        priority: int = 0,
        delay: float | timedelta | None = None,
        start_at: datetime | None = None,
    ) -> SyncRunHandle[R]: ...

    @overload
    def submit(
        self,
        workflow: str,
        input: Any = None,
        *,
        idempotency_key: str | None = None,
        run_id: str | None = None,
        priority: int = 0,
        delay: float | timedelta | None = None,
        start_at: datetime | None = None,
    ) -> SyncRunHandle[Any]: ...

    def submit(
        self,
        workflow: Submittable[Any] | str,
        input: Any = None,
        *,
        idempotency_key: str | None = None,
        run_id: str | None = None,
        priority: int = 0,
        delay: float | timedelta | None = None,
        start_at: datetime | None = None,
    ) -> SyncRunHandle[Any]:
        """Create a run and return at once; a worker takes it.

        By function the input is checked here and the run is pinned to the workflow's version; by name neither. The
        same `idempotency_key` (for `idempotency_ttl`) or `run_id` with the same input gives the first run back; with
        another input it raises IdempotencyConflict.

        Of the runs that wait for a worker those of a higher `priority` (-1000 to 1000) are taken first. With a `delay`
        (seconds or a timedelta) or a `start_at` (a datetime with a time zone) no worker takes it before that.
        """
        made = self._client.submit(
            workflow,
            input,
            idempotency_key=idempotency_key,
            run_id=run_id,
            priority=priority,
            delay=delay,
            start_at=start_at,
        )
        return SyncRunHandle(self._thread, self._thread.run(made))

    def emit(self, name: str, payload: Any = None, *, id: str | None = None) -> Emitted:
        """Tell an event: each workflow that it starts begins one run, with the payload as its input.

        An event of the same `id` is told once (for 7 days). One that no workflow wants is kept until one does.
        """
        return self._thread.run(self._client.emit(name, payload, id=id))

    def waiting_events(self, limit: int = 100) -> tuple[WaitingEvent, ...]:
        """Events that have begun no run yet, oldest first: nobody wants them, or nobody is there who could tell."""
        return self._thread.run(self._client.waiting_events(limit))

    @property
    def schedules(self) -> SyncSchedules:
        """The schedules of this store, and what an operator can do with them."""
        return SyncSchedules(self._thread, self._client.schedules, lambda handle: SyncRunHandle(self._thread, handle))

    @overload
    def handle(self, workflow: Submittable[R], run_id: str) -> SyncRunHandle[R]: ...

    @overload
    def handle(self, workflow: str, run_id: str) -> SyncRunHandle[Any]: ...

    def handle(self, workflow: Submittable[Any] | str, run_id: str) -> SyncRunHandle[Any]:
        """The handle of a run that was submitted before; reads nothing."""
        return SyncRunHandle(self._thread, self._client.handle(workflow, run_id))

    def status(self, run_id: str) -> RunStatus:
        """Where a run stands."""
        return self._thread.run(self._client.status(run_id))

    def list(
        self,
        workflow: Submittable[Any] | str | None = None,
        status: Statuses | None = None,
        limit: int = 100,
        before: str | None = None,
        *,
        schedule: str | None = None,
        suspects: bool = False,
    ) -> tuple[RunSummary, ...]:
        """Runs, newest first: of one workflow or all, in these statuses or any; `before` is the last id of a page.

        With `schedule` only those that this schedule began. With `suspects` only those that are tried again alone;
        every run in these statuses is looked at for that.
        """
        return self._thread.run(
            self._client.list(workflow, status, limit, before, schedule=schedule, suspects=suspects)
        )

    def describe(self, run_id: str) -> dict[str, Any]:
        """A run in full: input, result, error, times and the decoded journal, as plain JSON values."""
        return self._thread.run(self._client.describe(run_id))

    def events(self, run_id: str, after: int = 0, limit: int = 1000) -> tuple[RunEvent, ...]:
        """What a run has told since the event `after`, in order, at most `limit`; see RunEvent."""
        return self._thread.run(self._client.events(run_id, after, limit))

    def result(self, run_id: str, timeout: float | None = None) -> Any:
        """Wait for a run's end; see SyncRunHandle.result."""
        return self._thread.run(self._client.result(run_id, timeout))

    def signal(self, run_id: str, name: str, payload: Any = None, *, message_id: str | None = None) -> None:
        """Send a signal to a run; see SyncRunHandle.signal. IllegalTransition if the run has ended."""
        self._thread.run(self._client.signal(run_id, name, payload, message_id=message_id))

    def cancel(self, run_id: str) -> None:
        """Ask a run to unwind; one whose code never began is cancelled at once. IllegalTransition if it has ended."""
        self._thread.run(self._client.cancel(run_id))

    def requeue(self, run_id: str) -> None:
        """Send a failed, quarantined or paused run on after a fix. IllegalTransition for any other."""
        self._thread.run(self._client.requeue(run_id))

    def pause(self, run_id: str) -> None:
        """Take a run from its worker and keep it until it is resumed; a step under way is performed again then.

        IllegalTransition if it has ended.
        """
        self._thread.run(self._client.pause(run_id))

    def resume(self, run_id: str) -> None:
        """Let a paused run go on. IllegalTransition if it has ended."""
        self._thread.run(self._client.resume(run_id))

    def fork(self, run_id: str, step: str | None = None, *, version: str | None = None) -> SyncRunHandle[Any]:
        """Begin a new run with what this one recorded before a step, and return its handle; this one stays as it is.

        `step` is an operation's id, as `describe` shows it, or its name if that is unique; unset, the step whose
        failure ended the run, or the end of its journal. The new run is pinned as this one is, or to `version`. Its
        steps have idempotency keys of their own.
        """
        return SyncRunHandle(self._thread, self._thread.run(self._client.fork(run_id, step, version=version)))

    def choose(
        self,
        act: Act | str,
        workflow: Submittable[Any] | str | None = None,
        status: Statuses | None = None,
        *,
        cause: str | None = None,
        older_than: float | None = None,
        newer_than: float | None = None,
        limit: int | None = None,
    ) -> tuple[RunSummary, ...]:
        """The runs that can be cancelled, paused, resumed, requeued or forked (`act`), oldest first.

        `cause` is what a run was quarantined for, such as "loop_blocked". `older_than` and `newer_than` say how many
        seconds ago a run ended; one that has not ended, was submitted. `limit` takes the oldest of them. Nothing is
        changed: that is for `bulk`.
        """
        found = self._client.choose(
            act, workflow, status, cause=cause, older_than=older_than, newer_than=newer_than, limit=limit
        )
        return self._thread.run(found)

    def bulk(
        self,
        act: Act | str,
        runs: Iterable[str | RunSummary],
        *,
        rate: float | None = None,
        step: str | None = None,
        version: str | None = None,
    ) -> SyncBulk:
        """Do it to runs, `rate` a second, evenly spaced: `for result in client.bulk("requeue", runs, rate=5)`.

        `act` is "cancel", "pause", "resume", "requeue" or "fork"; `step` and `version` are for forks. Runs are ids, or
        what `choose` gave; of these one that has changed since then, other than by going on, is left alone. A run that
        refuses does not keep the others: its result says why.
        """
        return SyncBulk(self._thread, self._client.bulk(act, runs, rate=rate, step=step, version=version))
