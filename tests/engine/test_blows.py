"""Blows to a run as a whole: a cancel, a deadline, and what the body may still do under them."""

from __future__ import annotations

import asyncio
from typing import Any

from pyrula_runtime.core.entries import (
    CancelRequested,
    Completed,
    DeadlinePassed,
    Op,
    OpKind,
    Withdrawn,
)
from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.codec import dump_entry, load_error
from pyrula_runtime.engine.turn import Turn
from tests.engine.fake_host import FakeHost, Ops, claim_of, program


def op(op_id: str, name: str = "work") -> Op:
    return Op(op_id=op_id, kind=OpKind.step, name=name)


async def two_steps(ops: Ops) -> list[Any]:
    return [await ops.step("a"), await ops.step("b")]


async def test_cancelling_enters_the_body_and_compensation_still_works() -> None:
    async def compensates(ops: Ops) -> None:
        try:
            await ops.step("charge")
        except asyncio.CancelledError:
            await ops.step("refund")
            raise

    host = FakeHost()
    turn = host.turn(compensates)
    charge = host.steps["charge#1"]
    turn.cancel()
    turn.cancel()
    assert charge.stopped
    await host.answer_all()
    host.complete("refund#1")
    await host.answer_all()
    assert host.status is RunStatus.cancelled
    assert [type(entry) for entry in host.entries] == [CancelRequested, Withdrawn, Completed]


async def test_a_run_whose_worker_died_in_its_first_step_is_unwound_by_a_cancel() -> None:
    async def compensates(ops: Ops) -> None:
        try:
            await ops.step("charge")
        except asyncio.CancelledError:
            await ops.step("refund")
            raise

    host = FakeHost()
    host.turn(compensates, claim=claim_of(token=Token(run_id="r", fence=2, nonce="n"), cancel_requested=True))
    await host.answer_all()
    host.complete("refund#1")
    await host.answer_all()
    assert host.status is RunStatus.cancelled
    assert "begin charge#1" not in host.log


async def test_a_cancel_that_came_while_nobody_ran_the_run_is_taken_up_after_replay() -> None:
    journal = [Completed(op=op("a#1", "a"), at_ms=1, value=7)]
    host = FakeHost()
    host.turn(two_steps, journal, claim=claim_of([dump_entry(journal[0])], cancel_requested=True))
    await host.answer_all()
    assert host.status is RunStatus.cancelled
    assert "begin b#1" not in host.log


async def test_a_run_cancelled_before_any_code_of_it_ran_does_not_start() -> None:
    started = []

    async def body(_ops: Ops) -> None:
        started.append(1)

    host = FakeHost()
    host.turn(body, claim=claim_of(cancel_requested=True))
    await host.answer()
    assert host.status is RunStatus.cancelled
    assert not started


async def test_a_body_may_complete_in_spite_of_a_cancel() -> None:
    async def stubborn(ops: Ops) -> str:
        try:
            await ops.step("a")
        except asyncio.CancelledError:
            return "done anyway"
        return ""

    host = FakeHost()
    host.turn(stubborn).cancel()
    await host.answer_all()
    assert host.status is RunStatus.completed


async def test_a_deadline_that_is_over_fails_the_run() -> None:
    host = FakeHost()
    host.clock_ms = 9_000
    turn = Turn(claim_of(now_ms=9_000), program(two_steps, timeout_s=5), (), host)
    turn.begin()
    await host.committing.wait()
    await host.answer_all()
    assert host.status is RunStatus.failed
    assert isinstance(host.entries[0], DeadlinePassed)
    assert host.ended is not None
    assert host.ended.ending is not None
    assert load_error(host.ended.ending.error or b"").type == "RunTimeout"
