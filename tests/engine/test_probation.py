"""How a suspect is cleared: by the commit that brings it past the place, and by no other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyrula_runtime.core.blame import Cause, Charge, Evidence, Mark, Record, cleared
from pyrula_runtime.core.entries import AttemptFailed, Completed, Op, OpKind
from pyrula_runtime.core.errors import ErrorRecord, StoreUnavailable
from pyrula_runtime.engine.codec import dossier_of, dump_entry, load_record
from pyrula_runtime.stores.protocol import Append, Claim
from tests.engine.fake_host import FakeHost, Ops, claim_of

EVIDENCE = Evidence(at_ms=1, cause=Cause.crashed, worker="w", op_id="b#1", stack="where")


def suspect(*places: str, charges: tuple[Charge, ...] = (), journal: tuple[bytes, ...] = ()) -> Claim:
    """A claim of a suspect that was marked while these operations were open."""
    marks = tuple(Mark(at_ms=1, cause=Cause.killed, worker="w", op_id=place) for place in places)
    record = Record(charges=charges, marks=marks, is_suspect=True)
    return claim_of(journal, dossier=dossier_of(record))


async def three_steps(ops: Ops) -> list[Any]:
    return [await ops.step(name) for name in "abc"]


def op(name: str) -> Op:
    return Op(op_id=f"{name}#1", kind=OpKind.step, name=name)


async def test_the_step_that_was_open_clears_it_and_no_other_does() -> None:
    host = FakeHost()
    host.turn(three_steps, claim=suspect("b#1"))
    host.complete("a#1")
    assert (await host.answer()).dossier is None
    host.complete("b#1")
    dossier = (await host.answer()).dossier
    assert dossier is not None
    assert not dossier.is_suspect
    assert load_record(dossier.record) == Record()
    host.complete("c#1")
    assert (await host.answer()).dossier is None


@pytest.mark.parametrize("outcome", ["fails", "is withdrawn"])
async def test_any_outcome_of_the_step_will_do(outcome: str) -> None:
    async def body(ops: Ops) -> None:
        first = asyncio.ensure_future(ops.step("b"))
        other = asyncio.ensure_future(ops.step("a"))
        await other
        if outcome == "is withdrawn":
            first.cancel()
        await ops.step("c")

    host = FakeHost()
    host.turn(body, claim=suspect("b#1"))
    if outcome == "fails":
        host.fail("b#1")
    else:
        host.complete("a#1")
    assert (await host.answer()).dossier is not None


async def test_a_failed_attempt_is_no_outcome() -> None:
    host = FakeHost()
    turn = host.turn(three_steps, claim=suspect("a#1"))
    error = ErrorRecord(type="ValueError", message="no")
    turn.attempt_failed(AttemptFailed(op=op("a"), at_ms=1, number=1, error=error, retry_at_ms=2))
    assert (await host.answer()).dossier is None
    host.complete("a#1")
    assert (await host.answer()).dossier is not None


async def test_of_several_places_the_last_counts() -> None:
    async def body(ops: Ops) -> None:
        await asyncio.gather(*(ops.step(name) for name in "ab"))
        await ops.step("c")

    host = FakeHost()
    host.turn(body, claim=suspect("a#1", "b#1"))
    host.complete("a#1")
    assert (await host.answer()).dossier is None
    host.complete("b#1")
    assert (await host.answer()).dossier is not None


@pytest.mark.parametrize("place", ["", "a#1"])
async def test_where_the_place_is_unknown_or_past_what_is_performed_first_stands_for_it(place: str) -> None:
    entry = Completed(op=op("a"), at_ms=1, value=1)
    host = FakeHost()
    host.turn(three_steps, [entry], claim=suspect(place, journal=(dump_entry(entry),)))
    host.complete("b#1")
    assert (await host.answer()).dossier is not None
    host.complete("c#1")
    assert (await host.answer()).dossier is None


async def test_all_that_is_performed_first_has_to_be_passed() -> None:
    async def body(ops: Ops) -> None:
        await asyncio.gather(*(ops.step(name) for name in "ab"))
        await ops.step("c")

    host = FakeHost()
    host.turn(body, claim=suspect(""))
    host.complete("b#1")
    assert (await host.answer()).dossier is None
    host.complete("a#1")
    assert (await host.answer()).dossier is not None


async def test_a_run_that_ends_has_come_past_everything() -> None:
    async def nothing(_ops: Ops) -> None:
        return None

    host = FakeHost()
    host.turn(nothing, claim=suspect("never#1"))
    commit = await host.answer()
    assert commit.ending is not None
    assert commit.dossier is not None
    assert not commit.dossier.is_suspect


async def test_a_run_whose_code_does_not_fit_its_journal_stays_a_suspect() -> None:
    entry = Completed(op=op("z"), at_ms=1, value=1)
    host = FakeHost()
    host.turn(three_steps, [entry], claim=suspect("a#1", journal=(dump_entry(entry),)))
    commit = await host.answer()
    assert commit.ending is not None
    assert commit.dossier is None


async def test_charges_stay_with_their_evidence() -> None:
    charges = (Charge(at_ms=1, evidence=EVIDENCE),)
    claim = suspect("b#1", charges=charges)
    host = FakeHost()
    host.turn(three_steps, claim=claim)
    host.complete("a#1")
    await host.answer()
    host.complete("b#1")
    dossier = (await host.answer()).dossier
    assert dossier == dossier_of(cleared(load_record(claim.dossier.record)))
    assert load_record(dossier.record).charges == charges


async def test_a_lost_answer_is_asked_for_with_the_same_words(monkeypatch: pytest.MonkeyPatch) -> None:
    host = FakeHost()
    host.turn(three_steps, claim=suspect("a#1"))
    again: list[Any] = []
    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", lambda _s, callback, *args: again.append(args))
    host.complete("a#1")
    first = await host.fail_commit(StoreUnavailable("gone"))
    assert first.dossier is not None
    assert again[0][0] == first


async def test_what_comes_during_a_commit_goes_with_the_next_together() -> None:
    async def body(ops: Ops) -> None:
        await asyncio.gather(*(ops.step(name) for name in "ab"))
        await ops.step("c")

    host = FakeHost()
    host.turn(body, claim=suspect("b#1"))
    host.complete("a#1")
    host.complete("b#1")
    first = await host.answer()
    assert (len(first.entries), first.dossier) == (1, None)
    second = await host.answer(Append.done)
    assert len(second.entries) == 1
    assert second.dossier is not None


async def test_who_is_no_suspect_carries_nothing() -> None:
    host = FakeHost()
    host.turn(three_steps, claim=claim_of(dossier=dossier_of(Record(charges=(Charge(at_ms=1, evidence=EVIDENCE),)))))
    for name in "abc":
        host.complete(f"{name}#1")
        assert (await host.answer()).dossier is None
