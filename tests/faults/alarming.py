"""Workflows that look from outside as if they blocked, and do not: threads that spin, long collections of garbage."""

from __future__ import annotations

import ctypes
import gc
import time

from pyrula.workflows import WorkflowContext, step, workflow


@step
def spin(seconds: float) -> int:
    """Want the GIL all the time."""
    ends, turns = time.monotonic() + seconds, 0
    while time.monotonic() < ends:
        turns += 1
    return turns


@workflow(name="spinning")
async def spinning(ctx: WorkflowContext, effects: str, threads: int, seconds: float) -> int:
    """Code of a run in so many threads at once."""
    return sum(await ctx.gather(*(ctx.step(spin, seconds) for _ in range(threads))))


def collect(seconds: float) -> int:
    """A collection of garbage that takes so long: no thread has the GIL meanwhile, as if the heap were a large one."""

    def take_long(phase: str, _facts: dict[str, int]) -> None:
        if phase == "start":
            ctypes.PyDLL(None).usleep(round(seconds * 1e6))

    gc.callbacks.append(take_long)
    try:
        return gc.collect()
    finally:
        gc.callbacks.remove(take_long)


@step
def collect_in_thread(seconds: float) -> int:
    return collect(seconds)


@step
async def collect_on_lane(seconds: float) -> int:
    return collect(seconds)


@workflow(name="collecting")
async def collecting(ctx: WorkflowContext, effects: str, seconds: float, times: int) -> None:
    """On the lane and in a thread, in turn."""
    for _ in range(times):
        await ctx.step(collect_on_lane, seconds)
        await ctx.step(collect_in_thread, seconds)


@step
async def collect_a_large_heap(objects: int) -> int:
    """The same in earnest: what has to be looked through is really there."""
    kept: list[list[int]] = [[] for _ in range(objects)]
    gc.collect()
    return len(kept)


@workflow(name="heaping")
async def heaping(ctx: WorkflowContext, effects: str, objects: int) -> int:
    return await ctx.step(collect_a_large_heap, objects)


@step
async def compute(millions: int) -> int:
    """A piece of code that would take a moment if it had a processor; it keeps the GIL."""
    return sum(range(millions * 1_000_000))


@workflow(name="computing")
async def computing(ctx: WorkflowContext, effects: str, times: int, millions: int = 1) -> int:
    """Many such pieces, one after another."""
    total = 0
    for _ in range(times):
        total += await ctx.step(compute, millions)
    return total


@step
async def block(seconds: float) -> None:
    """What has to raise an alarm."""
    ctypes.CDLL(None).usleep(round(seconds * 1e6))  # gives the GIL up, as time.sleep does


@workflow(name="blocking")
async def blocking(ctx: WorkflowContext, effects: str, seconds: float) -> None:
    await ctx.step(block, seconds)
