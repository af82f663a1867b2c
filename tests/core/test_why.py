"""Why a run does not go on: each reason, as a row of facts and the words that must be said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyrula_runtime.core.errors import ErrorRecord
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.core.why import SILENT_AFTER_MS, RunFacts, WorkerFacts, failed_before, why
from tests.core.journals import attempt

NOW_MS = 1_000_000
QUEUED = RunFacts(run_id="R1", workflow="order", version=None, status=RunStatus.queued)
PINNED = replace(QUEUED, version="2")
RUNNING = replace(QUEUED, status=RunStatus.running, owner="i1", lock_left_ms=22_000)
WAITING = replace(QUEUED, status=RunStatus.waiting)
ENDED = replace(QUEUED, finished_ms=NOW_MS - 180_000)
W1 = WorkerFacts(
    incarnation="i1", worker_id="w1", pid=7, host="h", serves=(("order", "1"), ("mail", None)), capacity=2, running=0
)
W2 = replace(W1, incarnation="i2", worker_id="w2", pid=8)
FULL, DRAINING, SILENT = (
    replace(W1, running=2),
    replace(W1, draining=True),
    replace(W1, age_ms=SILENT_AFTER_MS),
)
SUSPECT = replace(QUEUED, is_suspect=True)
PLAIN, CHILD, CELL = (replace(W1, role=role) for role in ("plain", "worker", "cell"))
BLOCKED = ErrorRecord(type="EventLoopBlocked", message="its code blocked", detail={"cause": "loop_blocked"})
BOOM = ErrorRecord(type="ValueError", message="no such customer.")


def said(run: RunFacts, *workers: WorkerFacts) -> str:
    return why(run, workers, NOW_MS)


@pytest.mark.parametrize(
    ("run", "workers", "words"),
    [
        (QUEUED, (), "no worker is connected to this store. Start one: pyrula worker --workflow MODULE:order"),
        (replace(QUEUED, workflow="oder"), (W1,), "no worker serves 'oder'; those connected serve mail, order."),
        (replace(QUEUED, workflow="oder"), (W1,), "Did you mean 'order'?"),
        (PINNED, (W1,), "pinned to version '2' of 'order', but the workers serve 1."),
        (PINNED, (replace(W1, serves=(("order", None),)),), "the workers serve unversioned code."),
        (QUEUED, (SILENT,), "worker w1 (pid 7 on h) serves it, but was last heard of 30 s ago."),
        (QUEUED, (DRAINING,), "worker w1 (pid 7 on h) is draining"),
        (QUEUED, (DRAINING, replace(W2, draining=True)), "each of the 2 workers that serve it is draining"),
        (QUEUED, (FULL, replace(W2, running=3)), "is full (w1 runs 2 of 2, w2 runs 3 of 2)"),
        (QUEUED, (W1,), "worker w1 (pid 7 on h) has room and is about to claim it."),
        (replace(PINNED, version="1"), (W1,), "about to claim it."),
        (replace(QUEUED, cancel_requested=True), (W1,), "Its cancellation was requested"),
        (QUEUED, (CELL,), "no worker is connected"),  # a cell takes suspects alone
        (SUSPECT, (), "no worker is connected to this store"),
        (SUSPECT, (DRAINING,), "is draining"),
        (SUSPECT, (CHILD,), "a suspect, because a worker was lost with it, and is tried again alone. A cell of the"),
        (SUSPECT, (CELL, W2), "A cell of the supervisor takes it"),
        (SUSPECT, (CHILD,), "What is held against it: pyrula runs show R1"),
        (SUSPECT, (replace(CHILD, running=2),), "A cell of the supervisor takes it"),
        (SUSPECT, (PLAIN,), "worker w1 (pid 7 on h) takes it next."),
        (
            SUSPECT,
            (replace(PLAIN, running=2),),
            "w1 (pid 7 on h) takes it when it has finished the 2 that it runs now.",
        ),
        (SUSPECT, (W1,), "A supervisor starts a cell for it; a worker without one takes it when it has finished"),
        (replace(RUNNING, is_suspect=True), (CELL,), "is running alone, because it is a suspect, in a cell: held by"),
        (replace(RUNNING, is_suspect=True), (PLAIN,), "is running alone, because it is a suspect: held by worker w1"),
        (RUNNING, (W2, W1), "is running: held by worker w1 (pid 7 on h) with 22 s of its lock left"),
        (RUNNING, (DRAINING,), "worker w1 (pid 7 on h), which is draining, with 22 s"),
        (RUNNING, (SILENT,), "is held by worker w1 (pid 7 on h), with 22 s of its lock left. If that worker is dead"),
        (RUNNING, (W2,), "is held by a worker that is not connected any more (incarnation i1)"),
        (replace(RUNNING, lock_left_ms=-4_000), (W1,), "the lock of worker w1 (pid 7 on h) lapsed 4.0 s ago"),
        (replace(RUNNING, lock_left_ms=-4_000), (), "the next orphan scan of any worker queues it again"),
        (replace(RUNNING, cancel_requested=True), (W1,), "Its cancellation was requested and reaches it"),
        (WAITING, (), "is asleep; it holds no worker meanwhile and goes on when somebody sends it on."),
        (replace(WAITING, due_ms=NOW_MS + 90_000), (), "is asleep; it holds no worker meanwhile and goes on in 90 s."),
        (replace(WAITING, awaits="signal 'go'"), (), "is waiting for signal 'go'; it holds no worker meanwhile."),
        (
            replace(WAITING, awaits="signal 'go'", due_ms=NOW_MS + 90_000),
            (),
            "is waiting for signal 'go'; it holds no worker meanwhile. If nothing comes, it goes on in 90 s.",
        ),
        (replace(WAITING, awaits=""), (), "is waiting for a message; it holds no worker meanwhile."),
        (
            replace(
                WAITING,
                due_ms=NOW_MS + 1_000,
                failed=failed_before(NOW_MS + 1_000, [attempt("a#1", 1), attempt("b#1", 2, NOW_MS)]),
            ),
            (),
            "is waiting for the next attempt of step 'b' (b#1), in 1.0 s: attempt 2 failed with ValueError: broken",
        ),
        (
            replace(QUEUED, status=RunStatus.waiting, due_ms=NOW_MS + 90_000, has_begun=False),
            (),
            "is waiting for its start, which was put off: it is to begin in 90 s.",
        ),
        (replace(QUEUED, status=RunStatus.paused), (), "paused by an operator. To go on: pyrula runs resume R1"),
        (
            replace(QUEUED, status=RunStatus.paused, error=ErrorRecord(type="JournalMismatch", message="a, not b.")),
            (),
            "nothing is lost: a, not b. Deploy code that fits its journal, then: pyrula runs requeue R1",
        ),
        (
            replace(
                QUEUED,
                status=RunStatus.paused,
                error=ErrorRecord(type="JournalMismatch", message="a, not b", detail={"hint": "do c"}),
            ),
            (),
            "a, not b. Deploy code that fits its journal (do c), then: pyrula runs requeue R1",
        ),
        (
            replace(QUEUED, status=RunStatus.paused, error=ErrorRecord(type="CodecFailed", message="no key")),
            (),
            "no key. Give its workers the right codec and keys, then: pyrula runs requeue R1",
        ),
        (replace(ENDED, status=RunStatus.completed), (), "completed 3 min ago; it waits for nothing."),
        (replace(QUEUED, status=RunStatus.completed), (), "completed; it waits for nothing."),
        (replace(ENDED, status=RunStatus.cancelled), (), "was cancelled 3 min ago"),
        (replace(ENDED, status=RunStatus.failed, error=BOOM), (), "3 min ago with ValueError: no such customer. After"),
        (replace(ENDED, status=RunStatus.failed), (), "with no error on record"),
        (replace(ENDED, status=RunStatus.quarantined, error=BOOM), (), "kept blocking or killing its workers: Value"),
        (
            replace(ENDED, status=RunStatus.quarantined, error=BLOCKED),
            (),
            "EventLoopBlocked: its code blocked. Its stack and a hint: pyrula runs show R1. After a fix: pyrula runs "
            "requeue R1; for all like it: pyrula runs requeue --cause loop_blocked",
        ),
    ],
)
def test_the_reason_is_named(run: RunFacts, workers: tuple[WorkerFacts, ...], words: str) -> None:
    assert words in said(run, *workers)
    assert said(run, *workers).startswith("Run R1 ")


def test_every_status_has_an_answer() -> None:
    for status in RunStatus:
        assert said(replace(QUEUED, status=status), W1)


def test_a_worker_with_room_wins_over_those_that_cannot() -> None:
    assert "worker w2 (pid 8 on h) has room" in said(QUEUED, FULL, SILENT, DRAINING, W2)


def test_a_long_error_is_cut_to_a_line() -> None:
    failed = replace(ENDED, status=RunStatus.failed)
    assert "E: one. After" in said(replace(failed, error=ErrorRecord(type="E", message="one\ntwo")))
    assert len(said(replace(failed, error=ErrorRecord(type="E", message="x" * 5_000)))) < 400


def test_many_workflows_are_not_all_listed() -> None:
    many = replace(W1, serves=tuple((f"w{number}", None) for number in range(8)))
    assert "serve w0, w1, w2, w3, w4 and 3 more" in said(QUEUED, many)
