"""Why a run does not go on, in one or two sentences: what it waits for, and what a person can do about it.

The answer is drawn from what the store knows: the run, what workers hold, and what they told about themselves. They
report every few seconds; one that has been silent for three reports counts as gone, although its record is still there.
Plain values in, words out: no store, no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from pyrula_runtime.core.entries import AttemptFailed, Entry
from pyrula_runtime.core.errors import CodecFailed, ErrorRecord
from pyrula_runtime.core.spans import ago, ahead, spoken
from pyrula_runtime.core.status import RunStatus

# three reports, which come every 10 s
SILENT_AFTER_MS = 30_000
# characters of an error that still read as part of a sentence
_LINE = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What is known of the run. `owner` and `lock_left_ms` (negative: lapsed) are None unless it is held.

    A suspect is taken by cells alone, or by a worker without a supervisor that has nothing else to do. `awaits` says in
    words for which messages it waits, None if none would send it on; `failed` is the attempt after which it waits for
    the next one.
    """

    run_id: str
    workflow: str
    version: str | None
    status: RunStatus
    cancel_requested: bool = False
    owner: str | None = None
    lock_left_ms: int | None = None
    finished_ms: int | None = None
    due_ms: int | None = None
    awaits: str | None = None
    failed: AttemptFailed | None = None
    has_begun: bool = True
    error: ErrorRecord | None = None
    is_suspect: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFacts:
    """A worker as it told about itself `age_ms` ago, and the runs it holds. `serves`: pairs of workflow and version.

    `role` is `plain` without a supervisor, else `worker`, `surge` or `cell`; empty if unknown (another host).
    """

    incarnation: str
    worker_id: str
    pid: int
    host: str
    serves: tuple[tuple[str, str | None], ...]
    capacity: int
    running: int
    draining: bool = False
    age_ms: int = 0
    role: str = ""

    @property
    def is_silent(self) -> bool:
        """Whether it is probably gone."""
        return self.age_ms >= SILENT_AFTER_MS

    @property
    def is_full(self) -> bool:
        """Whether it has no room."""
        return self.running >= self.capacity

    def __str__(self) -> str:
        return f"worker {self.worker_id} (pid {self.pid} on {self.host})"


Workers = Sequence[WorkerFacts]


def failed_before(due_ms: int | None, tail: Sequence[Entry]) -> AttemptFailed | None:
    """The failed attempt in a journal's last entries after which a run waits until then for the next one."""
    failed = [each for each in tail if isinstance(each, AttemptFailed) and each.retry_at_ms == due_ms]
    return failed[-1] if failed else None


def why(run: RunFacts, workers: Workers, now_ms: int) -> str:
    """What the run waits for, or what became of it."""
    told = _TELL[run.status](run, workers, now_ms)
    return f"Run {run.run_id} {told}"


def _queued(run: RunFacts, workers: Workers, _now_ms: int) -> str:
    reason = _why_queued(run, workers)
    cancel = " Its cancellation was requested and takes effect when it is claimed." if run.cancel_requested else ""
    return f"is queued: {reason}{cancel}"


def _why_queued(run: RunFacts, workers: Workers) -> str:
    if not run.is_suspect:
        workers = [each for each in workers if each.role != "cell"]
    if not (named := [each for each in workers if run.workflow in {name for name, _ in each.serves}]):
        return nobody_serves(run.workflow, {name for each in workers for name, _ in each.serves})
    if not (fitting := [each for each in named if _fits(run, each)]):
        pairs = {pair for each in named for pair in each.serves}
        versions = sorted(version or "unversioned code" for name, version in pairs if name == run.workflow)
        return (
            f"it is pinned to version {run.version!r} of {run.workflow!r}, but the workers serve {_listed(versions)}. "
            f"Start a worker with the code of that version."
        )
    if not (heard := [each for each in fitting if not each.is_silent]):
        newest = min(fitting, key=lambda each: each.age_ms)
        return f"{newest} serves it, but was last heard of {spoken(newest.age_ms)} ago. Start it again."
    if not (taking := [each for each in heard if not each.draining]):
        return f"{_all_of(heard)} draining and claims no more. Start another worker, or wait until it is back."
    if run.is_suspect:
        return f"{_SUSPECT} {_who_takes_suspects(taking)} What is held against it: pyrula runs show {run.run_id}"
    if not (free := [each for each in taking if not each.is_full]):
        loads = ", ".join(f"{each.worker_id} runs {each.running} of {each.capacity}" for each in taking)
        return f"every worker that serves it is full ({loads}). Start another one, or raise --max-concurrent-runs."
    return f"{free[0]} has room and is about to claim it."


_SUSPECT = "it is a suspect, because a worker was lost with it, and is tried again alone."


def _who_takes_suspects(workers: Workers) -> str:
    if any(each.role not in ("", "plain") for each in workers):
        return "A cell of the supervisor takes it, a worker process of its own."
    if not (plain := [each for each in workers if each.role == "plain"]):
        return "A supervisor starts a cell for it; a worker without one takes it when it has finished what it runs."
    idlest = min(plain, key=lambda each: each.running)
    busy = f" when it has finished the {idlest.running} that it runs now" if idlest.running else " next"
    return f"{idlest} takes it{busy}."


def _fits(run: RunFacts, worker: WorkerFacts) -> bool:
    return any(name == run.workflow and run.version in (None, version) for name, version in worker.serves)


def nobody_serves(workflow: str, served: Collection[str]) -> str:
    """That no worker serves this workflow, and what was perhaps meant; `served`: what those connected serve."""
    if not served:
        return f"no worker is connected to this store. Start one: pyrula worker --workflow MODULE:{workflow}"
    near = get_close_matches(workflow, sorted(served), 1)
    meant = f" Did you mean {near[0]!r}?" if near else ""
    return f"no worker serves {workflow!r}; those connected serve {_listed(sorted(served))}.{meant}"


def _all_of(workers: Workers) -> str:
    return f"{workers[0]} is" if len(workers) == 1 else f"each of the {len(workers)} workers that serve it is"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:5])
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown


def _running(run: RunFacts, workers: Workers, _now_ms: int) -> str:
    holder = next((each for each in workers if each.incarnation == run.owner), None)
    left_ms = run.lock_left_ms or 0
    name = str(holder) if holder else f"a worker that is not connected any more (incarnation {run.owner})"
    if left_ms <= 0:
        return (
            f"is running, but the lock of {name} lapsed {spoken(-left_ms)} ago: the next orphan scan of any worker "
            f"queues it again, from its last finished step."
        )
    cancel = " Its cancellation was requested and reaches it at the next renewal." if run.cancel_requested else ""
    if holder is None or holder.is_silent:
        return (
            f"is held by {name}, with {spoken(left_ms)} of its lock left. If that worker is dead, a worker started on "
            f"its host frees the run at once, any other one when the lock has lapsed.{cancel}"
        )
    drain = ", which is draining," if holder.draining else ""
    cell = ", in a cell" if holder.role == "cell" else ""
    alone = f" alone, because it is a suspect{cell}" if run.is_suspect else ""
    return (
        f"is running{alone}: held by {name}{drain} with {spoken(left_ms)} of its lock left, which is renewed.{cancel}"
    )


def _waiting(run: RunFacts, _workers: Workers, now_ms: int) -> str:
    if run.due_ms is not None and not run.has_begun:
        return f"is waiting for its start, which was put off: it is to begin {ahead(run.due_ms, now_ms)}."
    due = "" if run.due_ms is None else ahead(run.due_ms, now_ms)
    if run.awaits is not None:
        otherwise = f" If nothing comes, it goes on {due}." if due else ""
        return f"is waiting for {run.awaits or 'a message'}; it holds no worker meanwhile.{otherwise}"
    if run.failed is not None:
        return (
            f"is waiting for the next attempt of {run.failed.op}, {due}: attempt {run.failed.number} failed with "
            f"{_line(str(run.failed.error))}"
        )
    return f"is asleep; it holds no worker meanwhile and goes on {due or 'when somebody sends it on'}."


def _paused(run: RunFacts, _workers: Workers, _now_ms: int) -> str:
    if run.error is None:
        return f"was paused by an operator. To go on: pyrula runs resume {run.run_id}"
    hint = run.error.detail.get("hint")
    remedy = _REMEDIES.get(run.error.type, "Deploy code that fits its journal") + (f" ({hint})" if hint else "")
    return (
        f"is paused, nothing is lost: {run.error.message.rstrip('.')}. {remedy}, then: pyrula runs requeue {run.run_id}"
    )


_REMEDIES = {CodecFailed.__name__: "Give its workers the right codec and keys"}


def _completed(run: RunFacts, _workers: Workers, now_ms: int) -> str:
    return f"completed{_when(run, now_ms)}; it waits for nothing."


def _cancelled(run: RunFacts, _workers: Workers, now_ms: int) -> str:
    return f"was cancelled{_when(run, now_ms)}; submit it again if it is wanted after all."


def _failed(run: RunFacts, _workers: Workers, now_ms: int) -> str:
    return f"failed{_when(run, now_ms)} with {_error(run)}. After a fix: pyrula runs requeue {run.run_id}"


def _quarantined(run: RunFacts, _workers: Workers, now_ms: int) -> str:
    cause = "" if run.error is None else run.error.detail.get("cause", "")
    alike = f"; for all like it: pyrula runs requeue --cause {cause}" if cause else ""
    return (
        f"was quarantined{_when(run, now_ms)}, because it kept blocking or killing its workers: {_error(run)}. "
        f"Its stack and a hint: pyrula runs show {run.run_id}. After a fix: pyrula runs requeue {run.run_id}{alike}"
    )


def _when(run: RunFacts, now_ms: int) -> str:
    return "" if run.finished_ms is None else f" {ago(run.finished_ms, now_ms)}"


def _error(run: RunFacts) -> str:
    """The error in a line: the whole of it is for `runs show`."""
    if run.error is None:
        return "no error on record"
    return _line(str(run.error))


def _line(error: str) -> str:
    line = error.partition("\n")[0]
    return f"{line[:_LINE]}…" if len(line) > _LINE else line.rstrip(".")


_TELL: dict[RunStatus, Callable[[RunFacts, Workers, int], str]] = {
    RunStatus.queued: _queued,
    RunStatus.running: _running,
    RunStatus.waiting: _waiting,
    RunStatus.paused: _paused,
    RunStatus.completed: _completed,
    RunStatus.failed: _failed,
    RunStatus.cancelled: _cancelled,
    RunStatus.quarantined: _quarantined,
}
