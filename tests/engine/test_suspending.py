"""A turn with nothing to do but to wait: it ends, says what for, and the next one goes on from there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from pyrula_runtime.core.entries import (
    AttemptFailed,
    CancelRequested,
    Completed,
    DeadlinePassed,
    Entry,
    Op,
    OpKind,
    Requeued,
    Resumed,
    Withdrawn,
)
from pyrula_runtime.core.errors import ErrorRecord, TurnSuspended
from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.codec import dump_entry, load_error
from pyrula_runtime.engine.turn import Turn
from pyrula_runtime.stores.protocol import Ending, Wait
from tests.engine.fake_host import BodyFunction, FakeHost, Ops, claim_of, program

BROKEN = ErrorRecord(type="ValueError", message="broken")
SLEEP = Op(op_id="sleep#1", kind=OpKind.sleep, name="sleep")


async def sleeps(ops: Ops) -> str:
    await ops.sleep(60_000)
    return "slept"


def resumed(host: FakeHost, body: BodyFunction, journal: Sequence[Entry] = (), **policy: Any) -> Turn:
    """A turn of a run that was claimed again, at the host's time."""
    raw = [dump_entry(entry) for entry in journal]
    host.journal = list(raw)
    turn = Turn(claim_of(raw, now_ms=host.clock_ms), program(body, **policy), journal, host)
    turn.begin()
    return turn


def ending_of(host: FakeHost) -> Ending:
    commit, _ = host.commits[0]
    assert commit.ending is not None
    return commit.ending


def wait_of(host: FakeHost) -> Wait:
    ending = ending_of(host)
    assert ending.status is RunStatus.waiting
    assert ending.wait is not None
    return ending.wait


async def test_a_sleep_ends_the_turn_and_says_when_it_is_over() -> None:
    host = FakeHost()
    turn = host.turn(sleeps)
    wait = wait_of(host)
    assert (wait.due_ms, wait.inbox_seen, wait.wake_status, wait.cancel_seen) == (61_000, None, RunStatus.queued, False)
    commit = await host.answer()
    assert commit.entries == ()
    assert turn.is_over
    assert host.log == ["commit 0", "over"]


async def test_the_body_is_unwound_and_nothing_of_that_is_journaled() -> None:
    seen: list[type[BaseException]] = []

    async def tidy(ops: Ops) -> None:
        try:
            await asyncio.gather(ops.sleep(60_000), ops.sleep(70_000))
        except BaseException as error:
            seen.append(type(error))
            await ops.step("undo")
            raise

    host = FakeHost()
    host.turn(tidy)
    commit = await host.answer()
    assert seen == [TurnSuspended]
    assert commit.entries == ()
    assert host.steps == {}


async def test_when_it_is_time_the_next_turn_goes_on() -> None:
    host = FakeHost()
    host.clock_ms = 61_000
    resumed(host, sleeps)
    await host.answer_all()
    assert host.status is RunStatus.completed
    assert host.entries == [Completed(op=SLEEP, at_ms=61_000, value=None)]


async def test_a_claim_before_its_time_suspends_again_and_never_fires_early() -> None:
    host = FakeHost()
    host.clock_ms = 60_700
    resumed(host, sleeps)
    assert wait_of(host).due_ms == 61_000


async def test_what_is_due_at_once_needs_no_other_turn() -> None:
    async def naps(ops: Ops) -> str:
        await ops.sleep(0)
        return "up"

    host = FakeHost()
    host.turn(naps)
    assert ending_of(host).result == b'"up"'


async def test_what_is_due_soon_is_waited_for_here() -> None:
    async def naps(ops: Ops) -> None:
        await ops.sleep(100)

    host = FakeHost()
    turn = host.turn(naps)
    assert host.commits == []
    turn.parked()
    assert host.commits == []
    host.clock_ms += 100
    turn.parked()
    assert ending_of(host).status is RunStatus.completed


async def test_a_timer_looks_again_when_it_is_time() -> None:
    async def naps(ops: Ops) -> None:
        await ops.sleep(20)

    host = FakeHost()
    host.turn(naps)
    host.clock_ms += 20
    await asyncio.wait_for(host.committing.wait(), 20)
    assert ending_of(host).status is RunStatus.completed


async def test_the_time_of_a_sleep_counts_from_what_the_body_had_learnt_when_it_asked() -> None:
    async def works_and_sleeps(ops: Ops) -> None:
        await ops.step("a")
        await ops.sleep(60_000)

    host = FakeHost()
    host.turn(works_and_sleeps)
    host.clock_ms = 5_000
    host.complete("a#1")
    wait = wait_of(host)
    assert wait.due_ms == 65_000
    commit = await host.answer()
    assert len(commit.entries) == 1
    host.clock_ms = 65_000
    resumed(host, works_and_sleeps, host.entries)
    assert ending_of(host).status is RunStatus.completed


async def test_while_a_step_runs_the_turn_goes_on() -> None:
    async def both(ops: Ops) -> list[Any]:
        return list(await asyncio.gather(ops.sleep(60_000), ops.step("a")))

    host = FakeHost()
    turn = host.turn(both)
    assert host.commits == []
    host.clock_ms = 70_000
    turn.parked()
    commit = await host.answer()
    assert commit.ending is None
    host.complete("a#1", 7)
    commit = await host.answer()
    assert commit.ending is not None
    assert commit.ending.result == b"[null,7]"


async def test_when_the_last_step_is_done_the_rest_of_the_wait_ends_the_turn() -> None:
    async def both(ops: Ops) -> None:
        await asyncio.gather(ops.sleep(60_000), ops.step("a"))

    host = FakeHost()
    host.turn(both)
    host.complete("a#1", 7)
    assert wait_of(host).due_ms == 61_000
    assert len(host.commits[0][0].entries) == 1


async def test_a_sleep_that_the_body_gives_up_is_waited_for_no_more() -> None:
    async def races(ops: Ops) -> None:
        sleep = asyncio.ensure_future(ops.sleep(60_000))
        await ops.sleep(1_000)
        sleep.cancel()
        await ops.sleep(90_000)

    host = FakeHost()
    host.turn(races)
    assert wait_of(host).due_ms == 2_000
    host = FakeHost()
    host.clock_ms = 2_000
    resumed(host, races)
    assert wait_of(host).due_ms == 92_000
    await host.answer()
    assert isinstance(host.entries[1], Withdrawn)


async def test_a_cancel_wakes_a_sleeper_and_its_compensation_may_sleep_too() -> None:
    async def careful(ops: Ops) -> None:
        try:
            await ops.sleep(60_000)
        finally:
            await ops.sleep(30_000)

    host = FakeHost()
    host.clock_ms = 10_000
    claim = claim_of(now_ms=10_000, cancel_requested=True, token=Token(run_id="r", fence=2, nonce="n"))
    Turn(claim, program(careful), [], host).begin()
    wait = wait_of(host)
    assert (wait.due_ms, wait.cancel_seen) == (40_000, True)


async def test_the_deadline_of_the_workflow_wakes_a_sleeper() -> None:
    host = FakeHost()
    resumed(host, sleeps, timeout_s=5)
    assert wait_of(host).due_ms == 6_000
    host = FakeHost()
    host.clock_ms = 6_000
    resumed(host, sleeps, timeout_s=5)
    await host.answer_all()
    assert host.status is RunStatus.failed
    assert isinstance(host.entries[0], DeadlinePassed)


async def test_a_sleep_whose_end_was_voided_begins_anew_at_the_requeue() -> None:
    journal: list[Entry] = [Completed(op=SLEEP, at_ms=61_000, value=None), Requeued(at_ms=80_000, void_from=0)]
    host = FakeHost()
    host.clock_ms = 81_000
    resumed(host, sleeps, journal)
    assert wait_of(host).due_ms == 140_000


@pytest.mark.parametrize("ahead_ms", [-300_000, 300_000])
async def test_the_clock_of_the_worker_does_not_matter(ahead_ms: int) -> None:
    host = FakeHost()
    host.clock_ms = 1_000_000 + ahead_ms
    turn = Turn(claim_of(started_ms=1_000, now_ms=61_000), program(sleeps), [], host)
    turn.begin()
    assert ending_of(host).status is RunStatus.completed
    host = FakeHost()
    host.clock_ms = 1_000_000 + ahead_ms
    turn = Turn(claim_of(started_ms=1_000, now_ms=2_000), program(sleeps), [], host)
    turn.begin()
    assert wait_of(host).due_ms == 61_000


async def test_a_turn_that_is_stopped_while_it_ends_in_a_wait_leaves_it_to_the_store() -> None:
    host = FakeHost()
    turn = host.turn(sleeps)
    turn.suspend()
    await host.answer()
    assert turn.is_over
    assert "over" not in host.log


# what is struck must end


async def never_gives_up(ops: Ops) -> None:
    try:
        await ops.sleep(60_000)
    finally:
        while True:
            await ops.sleep(30_000)


CANCELLED_AT_2_S: list[Entry] = [CancelRequested(at_ms=2_000), Withdrawn(op=SLEEP, at_ms=2_000)]


async def test_a_run_that_is_struck_is_woken_when_its_time_to_unwind_is_over() -> None:
    host = FakeHost()
    host.clock_ms = 2_000
    resumed(host, never_gives_up, CANCELLED_AT_2_S, cancel_within_s=10)
    assert wait_of(host).due_ms == 12_000


async def test_compensation_that_does_not_end_is_given_up() -> None:
    host = FakeHost()
    host.clock_ms = 12_000
    resumed(host, never_gives_up, CANCELLED_AT_2_S, cancel_within_s=10)
    ending = ending_of(host)
    assert ending.status is RunStatus.cancelled
    error = load_error(ending.error or b"")
    assert error.message == "the run was cancelled, and its code had not unwound 10 s after that"
    assert host.log[0] == "the run still unwinds after 10 s and is given up"


@pytest.mark.parametrize("blow", [CancelRequested(at_ms=2_000), DeadlinePassed(at_ms=2_000)])
async def test_no_time_to_unwind_passes_during_a_pause(blow: CancelRequested | DeadlinePassed) -> None:
    host = FakeHost()
    host.clock_ms = 900_000
    journal: list[Entry] = [blow, Withdrawn(op=SLEEP, at_ms=2_000), Resumed(at_ms=899_000)]
    resumed(host, never_gives_up, journal, cancel_within_s=10, timeout_s=1)
    assert wait_of(host).due_ms == 909_000


async def test_so_is_what_a_deadline_has_struck() -> None:
    journal: list[Entry] = [DeadlinePassed(at_ms=2_000), Withdrawn(op=SLEEP, at_ms=2_000)]
    host = FakeHost()
    host.clock_ms = 12_000
    resumed(host, never_gives_up, journal, cancel_within_s=10, timeout_s=1)
    ending = ending_of(host)
    assert ending.status is RunStatus.failed
    assert load_error(ending.error or b"").type == "RunTimeout"


async def test_a_step_of_a_compensation_is_stopped_when_its_time_is_over() -> None:
    async def compensates(ops: Ops) -> None:
        try:
            await ops.sleep(60_000)
        finally:
            await ops.step("refund")

    host = FakeHost()
    host.clock_ms = 11_980
    resumed(host, compensates, CANCELLED_AT_2_S, cancel_within_s=10)
    refund = host.steps["refund#1"]
    host.clock_ms = 12_000
    await asyncio.wait_for(host.committing.wait(), 20)
    assert ending_of(host).status is RunStatus.cancelled
    assert refund.stopped


# steps between two attempts


async def works(ops: Ops) -> Any:
    return await ops.step("a")


async def test_a_step_that_waits_for_its_next_attempt_keeps_no_worker() -> None:
    host = FakeHost()
    turn = host.turn(works)
    step = host.steps["a#1"]
    failed = AttemptFailed(op=step.asked.op, at_ms=1_000, number=1, error=BROKEN, retry_at_ms=61_000)
    step.idle_until_ms = 61_000
    turn.attempt_failed(failed)
    assert wait_of(host).due_ms == 61_000
    assert step.stopped
    await host.answer()
    host.clock_ms = 61_000
    resumed(host, works, host.entries)
    again = host.steps["a#1"].asked
    assert (again.attempts, again.retry_at_ms) == (1, 61_000)


async def test_one_that_begins_again_soon_stays() -> None:
    host = FakeHost()
    turn = host.turn(works)
    step = host.steps["a#1"]
    step.idle_until_ms = 1_100
    turn.attempt_failed(AttemptFailed(op=step.asked.op, at_ms=1_000, number=1, error=BROKEN, retry_at_ms=1_100))
    commit = await host.answer()
    assert commit.ending is None
    assert not step.stopped
