"""Six workflows: a quick one, and five whose code does what no code should do in a worker that others share.

The five are ordinary mistakes: a synchronous sleep in async code, a regular expression that never comes to an end, a
pointer that points nowhere, a library that ends the process, a list that only grows.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import time

from pyrula.workflows import WorkflowContext, step, workflow

_HOUR_S = 3600
_MEGABYTE = 1 << 20


@workflow(name="quick")
async def quick(ctx: WorkflowContext, number: int) -> int:
    """What an innocent run does: ask for something, compute something, write it down."""
    asked = await ctx.step(ask, number)
    found = await ctx.step(compute, asked)
    await ctx.gather(ctx.step(write_down, found), ctx.step(write_down, found + 1))
    return found


@workflow(name="sleeper")
async def sleeper(ctx: WorkflowContext) -> None:
    """Keeps its worker's loop, and lets other threads go on."""
    await ctx.step(sleep_in_async_code)


@workflow(name="matcher")
async def matcher(ctx: WorkflowContext) -> None:
    """Keeps its whole worker: no thread of it gets the GIL."""
    await ctx.step(match_for_ever)


@workflow(name="crasher")
async def crasher(ctx: WorkflowContext) -> None:
    """Ends its worker by a segmentation fault."""
    await ctx.step(read_from_nowhere)


@workflow(name="leaver")
async def leaver(ctx: WorkflowContext) -> None:
    """Ends its worker by an exit."""
    await ctx.step(leave)


@workflow(name="leaker")
async def leaker(ctx: WorkflowContext) -> None:
    """Takes memory until its worker is ended for it."""
    await ctx.step(hoard)


@step
async def ask(number: int) -> int:
    """Some service that takes its time."""
    await asyncio.sleep(0.03)
    return number


@step
def compute(number: int) -> int:
    """Something that takes a thread for a moment."""
    time.sleep(0.01)
    return number * number


@step
async def write_down(number: int) -> None:
    """Some other service."""
    await asyncio.sleep(0.01)


@step
async def sleep_in_async_code() -> None:
    """`await asyncio.sleep(…)` was meant."""
    time.sleep(_HOUR_S)  # noqa: ASYNC251 - the mistake


@step
async def match_for_ever() -> None:
    """Nested repetitions: the time doubles with each letter."""
    re.match("(a+)+b", "a" * 64)


@step
async def read_from_nowhere() -> None:
    """What a bug in an extension module does."""
    ctypes.string_at(0)


@step
async def leave() -> None:
    """What some libraries do when they give up."""
    os._exit(7)


@step
def hoard() -> int:
    """A cache without a limit, 64 MB a second."""
    kept: list[bytes] = []
    while True:
        kept.append(b"\1" * _MEGABYTE)
        time.sleep(1 / 64)
