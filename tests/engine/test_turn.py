"""A turn's promises: commit before effect, one gate, repetition word for word, and every way to end."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from pyrula_runtime.core.entries import (
    AttemptFailed,
    Completed,
    Failed,
    Op,
    OpKind,
    Withdrawn,
)
from pyrula_runtime.core.errors import ErrorRecord, StepFailed, StepTimeout, StoreUnavailable, TurnSuspended
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.codec import dump_entry, load_error
from pyrula_runtime.engine.turn import Turn
from pyrula_runtime.stores.protocol import Append
from tests.engine.fake_host import FakeHost, Ops, claim_of, program, settle


def op(op_id: str, name: str = "work") -> Op:
    return Op(op_id=op_id, kind=OpKind.step, name=name)


async def two_steps(ops: Ops) -> list[Any]:
    return [await ops.step("a"), await ops.step("b")]


async def test_a_step_begins_only_when_all_that_the_body_saw_is_committed() -> None:
    host = FakeHost()
    host.turn(two_steps)
    assert host.log == ["begin a#1"]
    host.complete("a#1", 1)
    assert host.log == ["begin a#1", "commit 1"]
    await host.answer()
    assert host.log[-1] == "begin b#1"


async def test_the_last_outcome_and_the_ending_are_one_commit() -> None:
    host = FakeHost()
    host.turn(two_steps)
    host.complete("a#1", 1)
    await host.answer()
    host.complete("b#1", 2)
    commit = await host.answer()
    assert len(commit.entries) == 1
    assert commit.ending is not None
    assert (commit.ending.status, commit.ending.result) == (RunStatus.completed, b"[1,2]")
    assert host.log[-1] == "over"


async def test_a_body_that_nothing_can_wake_fails_with_a_sentence_instead_of_waiting_for_ever() -> None:
    async def waits(ops: Ops) -> None:
        await ops.step("a")
        await asyncio.Event().wait()

    host = FakeHost()
    host.turn(waits)
    host.complete("a#1")
    commit = await host.answer()
    assert commit.ending is not None
    assert commit.ending.status is RunStatus.failed
    assert load_error(commit.ending.error or b"").type == "BodyStuck"


async def test_a_body_may_wait_for_a_sibling_that_waits_for_a_step() -> None:
    async def waits(ops: Ops) -> str:
        told = asyncio.Event()

        async def tell() -> None:
            await ops.step("a")
            told.set()

        task = asyncio.create_task(tell())
        await told.wait()
        await task
        return "told"

    host = FakeHost()
    host.turn(waits)
    (op_id,) = host.steps
    host.complete(op_id)
    commit = await host.answer()
    assert commit.ending is not None
    assert commit.ending.result == b'"told"'


async def test_a_commit_refused_for_good_pauses_the_run() -> None:
    host = FakeHost()
    turn = host.turn(two_steps)
    host.complete("a#1")
    await host.fail_commit(ValueError("not this one"))
    assert turn.is_over
    assert str(host.broken_by) == "not this one"


async def test_a_body_without_operations_ends_in_one_commit() -> None:
    async def nothing(_ops: Ops) -> str:
        return "done"

    host = FakeHost()
    host.turn(nothing)
    commit = await host.answer()
    assert commit.entries == ()
    assert host.status is RunStatus.completed


async def test_outcomes_that_come_during_a_commit_go_with_the_next_one() -> None:
    async def three(ops: Ops) -> list[Any]:
        return list(await asyncio.gather(*(ops.step(name) for name in "abc")))

    host = FakeHost()
    host.turn(three)
    host.complete("b#1", 2)
    host.complete("c#1", 3)
    host.complete("a#1", 1)
    assert host.log[3:] == ["commit 1"]
    await host.answer()
    commit = await host.answer()
    assert [entry.op.name for entry in host.entries if isinstance(entry, Completed)] == ["b", "c", "a"]
    assert commit.ending is not None
    assert commit.ending.result == b"[1,2,3]"


async def test_a_commit_of_unknown_outcome_is_repeated_word_for_word(monkeypatch: pytest.MonkeyPatch) -> None:
    host = FakeHost()
    turn = host.turn(two_steps)
    host.complete("a#1", 1)
    waits: list[Any] = []
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "call_later", lambda _s, callback, *args: waits.append((callback, args)))
    first = await host.fail_commit(StoreUnavailable("gone"))
    assert not host.commits
    assert not turn.is_over
    callback, args = waits.pop()
    callback(*args)
    assert host.commits[0][0] == first
    await host.answer(Append.duplicate)
    assert host.log[-1] == "begin b#1"


@pytest.mark.parametrize("append", [Append.fenced, Append.gap])
async def test_a_refused_commit_ends_the_turn_without_a_trace(append: Append) -> None:
    seen: list[BaseException] = []

    async def body(ops: Ops) -> None:
        await ops.step("a")
        try:
            await ops.step("b")
        except BaseException as error:
            seen.append(error)
            raise

    host = FakeHost()
    turn = host.turn(body)
    host.complete("a#1")
    await host.answer(append)
    assert turn.is_over
    assert host.lost_because is not None
    assert [type(error) for error in seen] == [TurnSuspended]
    assert "begin b#1" not in host.log
    assert not host.commits


async def test_replay_gives_the_same_values_and_performs_nothing_that_is_recorded() -> None:
    host = FakeHost()
    journal = [Completed(op=op("a#1", "a"), at_ms=1, value=7)]
    host.turn(two_steps, journal, claim=claim_of([dump_entry(entry) for entry in journal]))
    assert host.log == ["begin b#1"]
    host.complete("b#1", 8)
    commit = await host.answer()
    assert commit.expected_len == 1
    assert commit.ending is not None
    assert commit.ending.result == b"[7,8]"


async def test_a_failed_step_is_the_same_error_live_and_replayed() -> None:
    async def catches(ops: Ops) -> list[Any]:
        try:
            await ops.step("a")
        except StepFailed as error:
            return [type(error).__name__, error.error.type, str(error), error.op_id]
        return []

    live = FakeHost()
    live.turn(catches)
    live.fail("a#1", "PaymentDeclined", "no money")
    commit = await live.answer()
    assert commit.ending is not None
    replayed = FakeHost()
    replayed.turn(catches, live.entries, claim=claim_of(live.journal))
    again = await replayed.answer()
    assert again.ending == commit.ending
    assert orjson.loads(commit.ending.result or b"")[1] == "PaymentDeclined"


async def test_a_timed_out_step_raises_its_own_class() -> None:
    async def catches(ops: Ops) -> bool:
        try:
            await ops.step("a")
        except StepTimeout:
            return True
        return False

    host = FakeHost()
    host.turn(catches)
    host.fail("a#1", StepTimeout.__name__)
    commit = await host.answer()
    assert commit.ending is not None
    assert commit.ending.result == b"true"


async def test_failed_attempts_are_recorded_and_counted_after_a_restart() -> None:
    attempt = AttemptFailed(
        op=op("a#1", "a"), at_ms=5, number=2, error=ErrorRecord(type="E", message=""), retry_at_ms=9_000
    )
    host = FakeHost()
    host.turn(two_steps, [attempt], claim=claim_of([dump_entry(attempt)]))
    asked = host.steps["a#1"].asked
    assert (asked.attempts, asked.retry_at_ms) == (2, 9_000)


async def test_an_uncaught_failure_fails_the_run_and_names_the_operation() -> None:
    host = FakeHost()
    host.turn(two_steps)
    host.fail("a#1", "PaymentDeclined", "no money")
    commit = await host.answer()
    assert commit.ending is not None
    assert commit.ending.status is RunStatus.failed
    error = load_error(commit.ending.error or b"")
    assert error.type == "StepFailed"
    assert error.detail["op_id"] == "a#1"
    assert error.detail["error_type"] == "PaymentDeclined"


async def test_other_code_than_the_journals_pauses_the_run_before_anything_is_performed() -> None:
    journal = [Completed(op=op("charge#1", "charge"), at_ms=1, value=7)]
    host = FakeHost()
    host.turn(two_steps, journal, claim=claim_of([dump_entry(journal[0])]))
    commit = await host.answer()
    assert commit.ending is not None
    assert commit.ending.status is RunStatus.paused
    message = load_error(commit.ending.error or b"").message
    assert "charge" in message
    assert "'a'" in message
    assert not host.steps


async def test_code_that_ends_before_what_is_recorded_is_a_mismatch() -> None:
    async def nothing(_ops: Ops) -> None:
        return None

    journal = [Completed(op=op("a#1", "a"), at_ms=1, value=7)]
    host = FakeHost()
    host.turn(nothing, journal, claim=claim_of([dump_entry(journal[0])]))
    commit = await host.answer()
    assert commit.ending is not None
    assert commit.ending.status is RunStatus.paused


async def test_a_suspended_turn_journals_nothing_and_runs_no_compensation() -> None:
    events: list[str] = []

    async def body(ops: Ops) -> None:
        try:
            await ops.step("a")
        except Exception:  # noqa: BLE001 - what a workflow may well do
            events.append("compensation")
        except TurnSuspended:
            events.append("suspended")
            with pytest.raises(TurnSuspended):
                await ops.step("never")
            raise

    host = FakeHost()
    turn = host.turn(body)
    turn.suspend()
    turn.suspend()
    assert events == ["suspended"]
    assert not host.commits
    assert host.log == ["begin a#1"]


async def test_a_task_group_withdraws_the_siblings_of_a_failure() -> None:
    async def body(ops: Ops) -> str:
        async def one(name: str) -> None:
            await ops.step(name)

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(one("a"))
                group.create_task(one("b"))
        except ExceptionGroup as failures:
            return str(failures.exceptions)
        return ""

    host = FakeHost()
    host.turn(body)
    names = sorted(host.steps)
    assert [name.rpartition("/")[2] for name in names] == ["a#1", "b#1"]
    other = host.steps[names[1]]
    host.fail(names[0])
    assert other.stopped
    await host.answer_all()
    assert host.status is RunStatus.completed
    assert [type(entry) for entry in host.entries] == [Failed, Withdrawn]


async def test_the_time_after_a_withdrawal_is_the_same_live_and_replayed() -> None:
    async def body(ops: Ops) -> list[int]:
        first, second, given_up = (asyncio.ensure_future(ops.step(name)) for name in "abc")
        await first
        given_up.cancel()
        await second
        return [ops.operations.now_ms(), await ops.step("d")]

    host = FakeHost()
    host.turn(body)
    begun = [host.steps.pop(name) for name in ("a#1", "b#1")]
    host.clock_ms = 3_000  # the outcomes are a second old when they come, so the withdrawal is younger than both
    for each in begun:
        each.turn.settled(Completed(op=each.asked.op, at_ms=2_000, value=None))
    await host.answer_all()
    replayed = FakeHost()
    replayed.turn(body, host.entries, claim=claim_of(host.journal))
    for each_host in (host, replayed):
        each_host.complete("d#1", 0)
        await each_host.answer_all()
    assert host.ended is not None
    assert replayed.ended is not None
    assert host.ended.ending == replayed.ended.ending


async def test_a_result_that_is_no_json_fails_the_run_with_a_clear_sentence() -> None:
    async def body(_ops: Ops) -> object:
        return object()

    host = FakeHost()
    host.turn(body)
    commit = await host.answer()
    assert commit.ending is not None
    assert commit.ending.status is RunStatus.failed
    assert "JSON" in load_error(commit.ending.error or b"").message


async def test_a_step_result_over_the_entry_limit_is_a_failed_step() -> None:
    host = FakeHost()
    host.turn(two_steps)
    host.complete("a#1", "x" * 1_100_000)
    commit = await host.answer()
    assert commit.ending is not None
    assert commit.ending.status is RunStatus.failed
    assert "1,000,000" in load_error(commit.ending.error or b"").message


async def test_a_full_journal_fails_the_run_and_keeps_what_is_recorded() -> None:
    host = FakeHost()
    turn = Turn(claim_of(journal_bytes=49_999_990), program(two_steps), (), host)
    turn.begin()
    host.complete("a#1", 1)
    commit = await host.answer()
    assert commit.entries == ()
    assert commit.ending is not None
    assert commit.ending.status is RunStatus.failed
    assert load_error(commit.ending.error or b"").type == "LimitExceeded"


async def test_claims_that_come_with_the_commit_of_a_turn_stopped_meanwhile_are_not_lost() -> None:
    async def nothing(_ops: Ops) -> None:
        return None

    host = FakeHost()
    turn = host.turn(nothing)
    host.next_claims = (claim_of(),)
    turn.suspend()
    await host.answer()
    await settle()
    assert host.accepted == [claim_of()]
