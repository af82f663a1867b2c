"""The workflows whose processes are killed: each step leaves its mark in a file, so that effects can be counted.

A mark is one line, `run id:operation id`, written through to the disk before the step returns. A step that visits a
gate tells the test that it runs, and goes on when the test says so.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pyrula.workflows import Retry, StepTimeout, SyncWorkflowContext, WorkflowContext, current_step, step, workflow


def mark(effects: str) -> None:
    """Leave the mark of the running step."""
    fd = os.open(effects, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(fd, current_step().idempotency_key.encode() + b"\n")
        os.fsync(fd)
    finally:
        os.close(fd)


def is_first(effects: str) -> bool:
    """Whether the running step has left no mark yet."""
    return current_step().idempotency_key not in Path(effects).read_text().splitlines()


@step
async def leave_mark(effects: str, value: int) -> int:
    mark(effects)
    return value


@step
def leave_mark_in_thread(effects: str, value: int) -> int:
    mark(effects)
    return value


@step(retry=Retry(attempts=5, initial_s=0.01, jitter=0))
async def third_time_lucky(effects: str) -> int:
    mark(effects)
    if current_step().attempt < 3:
        raise ValueError("not yet")
    return current_step().attempt


@workflow(name="ten")
async def ten(ctx: WorkflowContext, effects: str) -> int:
    total = 0
    for value in range(10):
        total += await ctx.step(leave_mark, effects, value)
    return total


@workflow(name="side by side")
async def side_by_side(ctx: WorkflowContext, effects: str) -> list[int]:
    return await ctx.gather(*(ctx.step(leave_mark, effects, value) for value in range(5)))


@workflow(name="plain")
def plain(ctx: SyncWorkflowContext, effects: str) -> int:
    first = sum(ctx.step(leave_mark_in_thread, effects, value) for value in range(3))
    return first + sum(ctx.gather(partial(leave_mark_in_thread, effects, 3)))


@workflow(name="lucky")
async def lucky(ctx: WorkflowContext, effects: str) -> int:
    await ctx.step(leave_mark, effects, 0)
    attempt = await ctx.step(third_time_lucky, effects)
    return attempt + await ctx.step(leave_mark, effects, 1)


@step(timeout=0.05)
async def never_end(effects: str) -> None:
    mark(effects)
    await asyncio.Event().wait()


@workflow(name="overdue")
async def overdue(ctx: WorkflowContext, effects: str) -> str:
    await ctx.step(leave_mark, effects, 0)
    try:
        await ctx.step(never_end, effects)
    except StepTimeout:
        await ctx.step(leave_mark, effects, 1)
    return "late"


@step
async def fail(effects: str) -> None:
    mark(effects)
    raise ValueError("no")


@workflow(name="failing")
async def failing(ctx: WorkflowContext, effects: str) -> None:
    await ctx.step(leave_mark, effects, 0)
    await ctx.step(fail, effects)


@workflow(name="hurried", timeout=1)
async def hurried(ctx: WorkflowContext, effects: str, gate: str) -> None:
    """Has a second in all, and leaves a mark when that is over."""
    try:
        await ctx.step(visit, gate)
    except asyncio.CancelledError:
        await ctx.step(leave_mark, effects, 0)
        raise


@step
async def dawdle(effects: str) -> None:
    await asyncio.sleep(0.15)
    mark(effects)


@workflow(name="dawdling")
async def dawdling(ctx: WorkflowContext, effects: str) -> None:
    """A run that something may well happen to."""
    try:
        for _ in range(5):
            await ctx.step(dawdle, effects)
    except asyncio.CancelledError:
        await ctx.step(leave_mark, effects, 0)
        raise


# steps that visit a gate


@step
async def visit(gate: str) -> str:
    """Tell the test that this step runs; return what it says."""
    reader, writer = await asyncio.open_unix_connection(gate)
    try:
        writer.write(current_step().idempotency_key.encode() + b"\n")
        return (await reader.readline()).decode().strip()
    finally:
        writer.close()


@step
def visit_in_thread(gate: str) -> str:
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(gate)
        line.sendall(current_step().idempotency_key.encode() + b"\n")
        return line.makefile().readline().strip()


@step
async def visit_stubbornly(gate: str) -> str:
    """The same, and whoever cancels it is not heard: the step stays at the gate until it is let in."""
    visiting = asyncio.create_task(visit.function(gate))
    while not visiting.done():
        try:
            await asyncio.shield(visiting)
        except asyncio.CancelledError:
            continue
    return visiting.result()


@step
async def visit_with_the_lane(gate: str) -> str:
    """The same, and everything else on the lane stands still meanwhile."""
    return visit_in_thread(gate)


VISITS: dict[str, Callable[[str], Any]] = {
    each.name: each for each in (visit, visit_in_thread, visit_stubbornly, visit_with_the_lane)
}


@workflow(name="gated")
async def gated(ctx: WorkflowContext, effects: str, gate: str, how: str = "visit") -> str:
    await ctx.step(leave_mark, effects, 0)
    said: str = await ctx.step(VISITS[how], gate)
    await ctx.step(leave_mark, effects, 1)
    return said


@workflow(name="plain gated")
def plain_gated(ctx: SyncWorkflowContext, effects: str, gate: str) -> str:
    ctx.step(leave_mark_in_thread, effects, 0)
    said = ctx.step(visit_in_thread, gate)
    ctx.step(leave_mark_in_thread, effects, 1)
    return said


@workflow(name="impatient")
async def impatient(ctx: WorkflowContext, effects: str, gate: str) -> str:
    """Gives up a plain step that stands at the gate for too long, and goes on without it."""
    try:
        return await ctx.step(visit_in_thread.with_options(timeout=0.1), gate)
    except StepTimeout:
        return "gave up"


@workflow(name="compensating")
async def compensating(ctx: WorkflowContext, effects: str, gate: str) -> str:
    try:
        return await ctx.step(visit, gate)
    except asyncio.CancelledError:
        await ctx.step(leave_mark, effects, 0)
        raise


@step
async def die_once(effects: str) -> int:
    """Kill the process, unless this step has left its mark before."""
    if is_first(effects):
        mark(effects)
        os.kill(os.getpid(), signal.SIGKILL)
    return 1


@workflow(name="deadly")
async def deadly(ctx: WorkflowContext, effects: str) -> int:
    await ctx.step(leave_mark, effects, 0)
    return await ctx.step(die_once, effects)


@step
async def stop_the_lane(effects: str) -> int:
    """Stop the loop that steps run on."""
    mark(effects)
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0.01)
    return 1


@workflow(name="stopping")
async def stopping(ctx: WorkflowContext, effects: str) -> int:
    await ctx.step(leave_mark, effects, 0)
    return await ctx.step(stop_the_lane, effects)
