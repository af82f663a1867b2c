"""A turn of a run that an operator sent on."""

from __future__ import annotations

from pyrula.testing import Simulation
from pyrula.workflows import StepFailed, WorkflowContext, step, workflow
from pyrula_runtime.core.entries import DeadlinePassed, Entry, Requeued
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.codec import dump_entry
from pyrula_runtime.engine.turn import Turn
from tests.engine.fake_host import FakeHost, Ops, claim_of, program, settle


async def one_step(ops: Ops) -> object:
    return await ops.step("a")


async def test_the_timeout_counts_from_the_requeue() -> None:
    journal: list[Entry] = [DeadlinePassed(at_ms=6_000), Requeued(at_ms=8_000, void_from=0)]
    host = FakeHost()
    host.clock_ms = 9_000
    turn = Turn(
        claim_of([dump_entry(entry) for entry in journal], now_ms=host.clock_ms),
        program(one_step, timeout_s=5),
        journal,
        host,
    )
    turn.begin()
    await settle()
    host.complete("a#1", 7)
    await host.answer_all()
    assert host.status is RunStatus.completed


async def test_the_timeout_passes_for_a_requeued_run_as_well() -> None:
    journal: list[Entry] = [DeadlinePassed(at_ms=6_000), Requeued(at_ms=8_000, void_from=0)]
    host = FakeHost()
    host.clock_ms = 14_000
    turn = Turn(
        claim_of([dump_entry(entry) for entry in journal], now_ms=host.clock_ms),
        program(one_step, timeout_s=5),
        journal,
        host,
    )
    turn.begin()
    await host.committing.wait()
    await host.answer_all()
    assert host.status is RunStatus.failed


_luck: list[str] = []


@step
def comes_later() -> str:
    return _luck[0]  # not there at first


@workflow
async def freed_child(ctx: WorkflowContext) -> str:
    return str(await ctx.wait_signal("go"))


@workflow
async def gives_its_child_up(ctx: WorkflowContext) -> list[str]:
    free = ctx.start_child(freed_child, on_end="abandon")
    try:
        luck = await ctx.step(comes_later)
    except StepFailed:
        free.result().cancel()
        await ctx.wait_signal("break")
        raise
    return [luck, await free.result()]


def test_what_a_child_told_code_that_had_given_it_up_comes_again_after_a_requeue() -> None:
    _luck.clear()
    with Simulation() as simulation:
        run = simulation.start(gives_its_child_up)
        (child,) = run.children
        child.signal("go", "home")
        assert child.status is RunStatus.completed
        run.signal("break")
        assert run.status is RunStatus.failed
        _luck.append("good")
        simulation.do(lambda client: client.requeue(run.run_id))
        assert run.finish().result() == ["good", "home"]
