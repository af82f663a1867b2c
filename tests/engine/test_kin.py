"""Children and parents, as one turn has them: what is written together, what repeats itself, what is told last."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from pyrula_runtime.core.entries import Completed, Entry, Failed, Op, OpKind, Requeued, Started, Withdrawn
from pyrula_runtime.core.errors import ChildFailed, ContinuesAsNew, ErrorRecord
from pyrula_runtime.core.status import CANCELLATION, DELIVERY, RunStatus
from pyrula_runtime.core.tree import OnEnd
from pyrula_runtime.engine.codec import dump_entry, load_error
from pyrula_runtime.engine.payloads import Payloads
from pyrula_runtime.engine.program import EmitCall
from pyrula_runtime.engine.turn import Turn
from pyrula_runtime.stores.protocol import CancelRun, Commit, DeliverTo, EmitEvent, ParentLink, Received, SubmitRun
from tests.engine.fake_host import BodyFunction, FakeHost, Ops, claim_of, program
from tests.engine.test_payloads import Broken

KID = Op(op_id="kid#1", kind=OpKind.child, name="kid")
BROKEN = ErrorRecord(type="ValueError", message="broken")


def letter(seq: int, child_id: str, **told: Any) -> Received:
    name = f"child/{child_id}"
    return Received(seq=seq, message_id=name, name=name, body=orjson.dumps(told))


def turned(host: FakeHost, body: BodyFunction, journal: Sequence[Entry] = (), **fields: Any) -> Turn:
    raw = [dump_entry(entry) for entry in journal]
    host.journal = list(raw)
    inbox = fields.pop("inbox", ())
    claim = claim_of(raw, now_ms=host.clock_ms, inbox=inbox, inbox_len=len(inbox), **fields)
    turn = Turn(claim, program(body), journal, host)
    turn.begin()
    return turn


def last(host: FakeHost) -> Commit:
    return host.commits[-1][0]


def born(commit: Commit) -> list[str]:
    return [effect.run.run_id for effect in commit.effects if isinstance(effect, SubmitRun)]


async def has_a_child(ops: Ops) -> Any:
    return await ops.child()


async def start_of(body: BodyFunction = has_a_child) -> tuple[list[Entry], str]:
    """The journal of a run whose child has begun, and the child's id."""
    host = FakeHost()
    turned(host, body)
    (child_id,) = born(last(host))
    await host.answer()
    return host.entries, child_id


async def test_a_child_begins_in_the_write_that_records_it_and_the_parent_waits_without_a_worker() -> None:
    host = FakeHost()
    turned(host, has_a_child)
    commit = last(host)
    assert commit.ending is not None
    assert commit.ending.wait is not None
    assert (commit.ending.wait.due_ms, commit.ending.wait.inbox_seen) == (None, 0)
    (effect,) = commit.effects
    assert isinstance(effect, SubmitRun)
    assert (effect.run.workflow, effect.run.input) == ("kid", b"7")
    assert effect.run.parent == ParentLink(run_id="r", op_id="kid#1", on_end=OnEnd.cancel)
    await host.answer()
    assert host.entries == [Started(op=KID, at_ms=1_000, child_id=effect.run.run_id, on_end=OnEnd.cancel)]


async def test_whoever_begins_again_before_that_write_begins_the_same_child() -> None:
    (_, one), (_, other) = await start_of(), await start_of()
    assert one == other


async def test_a_child_on_record_is_not_begun_again_and_its_result_comes_once() -> None:
    journal, child_id = await start_of()
    host = FakeHost()
    host.clock_ms = 90_000
    turned(host, has_a_child, journal, inbox=(letter(1, child_id, status="completed", result=[1]),))
    commit = last(host)
    assert commit.ending is not None
    assert (commit.ending.status, commit.ending.result) == (RunStatus.completed, b"[1]")
    assert (commit.effects, commit.consumed) == ((), (1,))
    await host.answer()
    assert host.entries[1:] == [Completed(op=KID, at_ms=90_000, value=[1], message=1)]


@pytest.mark.parametrize("status", ["failed", "cancelled", "quarantined"])
async def test_how_a_child_ended_otherwise_is_an_error_in_the_parent(status: str) -> None:
    async def catches(ops: Ops) -> list[str]:
        try:
            await ops.child()
        except ChildFailed as failed:
            return [failed.workflow, failed.run_id, failed.status, failed.error.type]
        return []

    error = {"type": "ValueError", "message": "broken"}
    told = {"status": status} | ({} if status == "cancelled" else {"error": error})
    journal, child_id = await start_of(catches)
    host = FakeHost()
    turned(host, catches, journal, inbox=(letter(1, child_id, **told),))
    await host.answer()
    assert host.ended is not None
    assert host.ended.ending is not None
    kind = "RunCancelled" if status == "cancelled" else "ValueError"
    assert orjson.loads(host.ended.ending.result or b"") == ["kid", child_id, status, kind]


async def test_the_failure_of_a_child_fails_the_parent_and_says_by_which_operation() -> None:
    journal, child_id = await start_of()
    host = FakeHost()
    told = {"status": "failed", "error": {"type": "ValueError", "message": "broken"}}
    turned(host, has_a_child, journal, inbox=(letter(1, child_id, **told),))
    await host.answer()
    assert host.ended is not None
    assert host.ended.ending is not None
    error = orjson.loads(host.ended.ending.error or b"")
    assert (error["type"], error["detail"]["op_id"], error["detail"]["child"]) == ("ChildFailed", "kid#1", child_id)


async def test_after_a_requeue_another_child_is_begun() -> None:
    journal, child_id = await start_of()
    journal += [Failed(op=KID, at_ms=2_000, error=BROKEN, message=1), Requeued(at_ms=3_000, void_from=1)]
    host = FakeHost()
    turned(host, has_a_child, journal)
    (other,) = born(last(host))
    assert other != child_id


async def test_a_child_that_the_body_gives_up_is_cancelled_unless_it_was_to_go_on() -> None:
    async def gives_up(ops: Ops) -> None:
        children = [asyncio.ensure_future(ops.child("kid")), asyncio.ensure_future(ops.child("pet", OnEnd.abandon))]
        await ops.step("a")
        for each in children:
            each.cancel()
        await ops.step("b")

    host = FakeHost()
    turned(host, gives_up)
    kid, _ = born(last(host))
    await host.answer()
    host.complete("a#1")
    commit = await host.answer()
    assert commit.effects == (CancelRun(run_id=kid, moves=CANCELLATION),)
    assert [type(entry) for entry in host.entries[3:]] == [Withdrawn, Withdrawn]


async def test_at_its_end_a_run_cancels_its_children_but_those_that_go_on() -> None:
    async def leaves(ops: Ops) -> str:
        _ = ops.child("kid")
        _ = ops.child("pet", OnEnd.abandon)
        await ops.step("a")
        return "left"

    host = FakeHost()
    turned(host, leaves)
    kid, _ = born(last(host))
    await host.answer()
    host.complete("a#1")
    assert last(host).effects == (CancelRun(run_id=kid, moves=CANCELLATION),)


async def test_what_a_body_begins_without_waiting_for_it_begins_with_its_last_commit() -> None:
    async def leaves(ops: Ops) -> None:
        _ = ops.child("pet", OnEnd.abandon)
        _ = ops.tell("other", "go")
        _ = ops.operations.ask(EmitCall(name="left", payload=b"1"))

    host = FakeHost()
    turned(host, leaves)
    commit = await host.answer()
    assert commit.ending is not None
    assert commit.ending.status is RunStatus.completed
    assert [type(effect) for effect in commit.effects] == [SubmitRun, DeliverTo, EmitEvent]
    assert [type(entry) for entry in host.entries] == [Started, Completed, Completed]


async def test_a_child_tells_its_parent_how_it_ended_in_its_last_commit() -> None:
    async def works(_ops: Ops) -> list[int]:
        return [1]

    host = FakeHost()
    parent = ParentLink(run_id="parent", op_id="kid#1", on_end=OnEnd.abandon)
    turned(host, works, parent=parent)
    (effect,) = last(host).effects
    assert isinstance(effect, DeliverTo)
    assert effect.moves == DELIVERY
    message = effect.message
    assert (message.run_id, message.message_id, message.name) == ("parent", "child/r", "child/r")
    assert orjson.loads(message.body) == {"status": "completed", "result": [1]}


async def test_a_child_that_breaks_tells_that_too() -> None:
    async def breaks(_ops: Ops) -> None:
        raise ValueError("broken")

    host = FakeHost()
    turned(host, breaks, parent=ParentLink(run_id="parent", op_id="kid#1", on_end=OnEnd.cancel))
    (effect,) = last(host).effects
    assert isinstance(effect, DeliverTo)
    told = orjson.loads(effect.message.body)
    assert (told["status"], told["error"]["type"], told["error"]["message"]) == ("failed", "ValueError", "broken")


async def test_a_child_cancelled_before_any_code_of_it_ran_tells_that() -> None:
    host = FakeHost()
    link = ParentLink(run_id="parent", op_id="kid#1", on_end=OnEnd.cancel)
    turned(host, has_a_child, parent=link, cancel_requested=True)
    (effect,) = last(host).effects
    assert isinstance(effect, DeliverTo)
    assert orjson.loads(effect.message.body) == {"status": "cancelled"}


@pytest.mark.parametrize("cancel_requested", [True, False])
async def test_a_child_that_cannot_tell_how_it_ended_is_paused(*, cancel_requested: bool) -> None:
    async def ends(_ops: Ops) -> None: ...

    host = FakeHost()
    host.payloads = Payloads(Broken())
    link = ParentLink(run_id="parent", op_id="kid#1", on_end=OnEnd.cancel)
    turned(host, ends, parent=link, cancel_requested=cancel_requested)
    commit = await host.answer()
    assert (host.status, commit.effects) == (RunStatus.paused, ())
    assert commit.ending is not None
    assert load_error(commit.ending.error or b"").message == "the codec cannot encode: OSError: no key"


async def test_a_run_that_waits_or_is_paused_tells_nobody() -> None:
    host = FakeHost()
    turned(host, has_a_child, parent=ParentLink(run_id="parent", op_id="kid#1", on_end=OnEnd.cancel))
    assert [type(effect) for effect in last(host).effects] == [SubmitRun]

    async def other(ops: Ops) -> Any:
        return await ops.step("a")

    journal, _ = await start_of()
    host = FakeHost()
    turned(host, other, journal, parent=ParentLink(run_id="parent", op_id="kid#1", on_end=OnEnd.cancel))
    await host.answer()
    assert host.status is RunStatus.paused
    assert host.ended is not None
    assert host.ended.effects == ()


async def test_what_is_told_to_a_run_is_told_with_the_entry_that_says_so_under_one_id() -> None:
    async def tells(ops: Ops) -> None:
        await ops.tell("other", "go")
        await ops.tell("other")

    host = FakeHost()
    turned(host, tells)
    signal, cancel = last(host).effects
    assert isinstance(signal, DeliverTo)
    assert (signal.message.message_id, signal.message.name, signal.message.body) == ("r:go#1", "go", b'"hello"')
    assert cancel == CancelRun(run_id="other", moves=CANCELLATION)
    await host.answer()
    again = FakeHost()
    turned(again, tells, host.entries)
    assert last(again).effects == ()


async def test_many_children_begin_in_several_writes_and_the_turn_ends_with_the_last() -> None:
    async def many(ops: Ops) -> int:
        return len(await asyncio.gather(*(ops.child() for _ in range(450))))

    host = FakeHost()
    turned(host, many)
    sizes = []
    while host.commits:
        commit = await host.answer()
        sizes.append((len(born(commit)), commit.ending is not None))
    assert sizes == [(200, False), (200, False), (50, True)]
    assert len({entry.child_id for entry in host.entries if isinstance(entry, Started)}) == 450


async def test_a_crash_between_these_writes_begins_the_others_later_and_none_twice() -> None:
    async def many(ops: Ops) -> int:
        return len(await asyncio.gather(*(ops.child() for _ in range(450))))

    host = FakeHost()
    turned(host, many)
    first = born(await host.answer())
    again = FakeHost()
    turned(again, many, host.entries)
    second: list[str] = []
    while again.commits:
        second += born(await again.answer())
    assert (len(first), len(second)) == (200, 250)
    assert not set(first) & set(second)


async def test_a_crash_in_the_midst_of_a_long_farewell_goes_on_with_it() -> None:
    async def leaves(ops: Ops) -> None:
        for _ in range(250):
            _ = ops.child("pet", OnEnd.abandon)

    host = FakeHost()
    turned(host, leaves)
    first = await host.answer()
    assert (len(born(first)), first.ending) == (200, None)
    again = FakeHost()
    turned(again, leaves, host.entries)
    commit = await again.answer()
    assert len(born(commit)) == 50
    assert again.status is RunStatus.completed


async def test_messages_of_children_that_nobody_waits_for_are_consumed() -> None:
    async def hears(ops: Ops) -> None:
        await ops.signal()

    host = FakeHost()
    turned(host, hears, inbox=(letter(1, "gone", status="completed", result=1),))
    assert last(host).consumed == (1,)


async def test_what_a_child_told_stays_for_mended_code_when_the_code_does_not_fit_or_breaks() -> None:
    async def other(ops: Ops) -> Any:
        await ops.step("renamed")
        return await ops.child()

    async def breaks(ops: Ops) -> None:
        raise ValueError("broken")

    step = Op(op_id="a#1", kind=OpKind.step, name="a")
    on_record: list[Entry] = [
        Completed(op=step, at_ms=1_000, value=None),
        Started(op=KID, at_ms=1_000, child_id="kid-1", on_end=OnEnd.cancel),
    ]
    inbox = (letter(1, "kid-1", status="completed", result=7),)
    host = FakeHost()
    turned(host, other, on_record, inbox=inbox)
    commit = await host.answer()
    assert (host.status, commit.consumed) == (RunStatus.paused, ())
    host = FakeHost()
    turned(host, breaks, inbox=inbox)
    commit = await host.answer()
    assert (host.status, commit.consumed) == (RunStatus.failed, ())


async def test_a_run_that_goes_on_as_new_lets_go_of_its_children_and_numbers_its_operations_anew() -> None:
    async def goes_on(ops: Ops) -> None:
        _ = ops.child("kid")
        _ = ops.child("pet", OnEnd.abandon)
        await ops.step("a")
        raise ContinuesAsNew(b'"next"')

    host = FakeHost()
    turned(host, goes_on, parent=ParentLink(run_id="parent", op_id="kid#1", on_end=OnEnd.cancel))
    kid, _ = born(last(host))
    await host.answer()
    host.complete("a#1")
    commit = last(host)
    assert commit.ending is not None
    assert (commit.ending.status, commit.ending.again) == (RunStatus.queued, b'"next"')
    assert commit.effects == (CancelRun(run_id=kid, moves=CANCELLATION),)
    host = FakeHost()
    turned(host, goes_on, generation=2)
    assert not set(born(last(host))) & {kid}
    await host.answer()
    assert list(host.steps) == ["2/a#1"]


async def test_a_child_that_has_ended_before_anybody_waits_for_it_is_heard_once() -> None:
    async def waits_late(ops: Ops) -> Any:
        child = ops.child()
        await ops.step("a")
        return await child

    host = FakeHost()
    turn = turned(host, waits_late)
    (child_id,) = born(await host.answer())
    turn.heard(1)
    assert host.reading == [0]
    turn.letters([letter(1, child_id, status="completed", result=7)])
    assert (await host.answer()).consumed == (1,)
    turn.heard(1)  # told again
    host.complete("a#1")
    commit = last(host)
    assert commit.ending is not None
    assert (commit.ending.result, commit.consumed) == (b"7", ())
    assert host.reading == [0]
