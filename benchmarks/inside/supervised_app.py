"""Workflows that block, die or go on elsewhere, for a supervisor and its workers."""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
from pathlib import Path

from benchmarks.tape import VARIABLE, Pen
from pyrula.workflows import WorkflowContext, step, workflow

pen = Pen()
pen.note("imported")

_FOREVER_S = 600
_LIFE_S = 1.1  # a little more than the second after ready, since the hook is called before


def started() -> None:
    """For `--after-fork`: a worker begins."""
    Pen().note("started")


def dies_soon() -> None:
    """For `--after-fork`: a worker begins, and dies a second after it is ready."""
    started()
    dying = threading.Timer(_LIFE_S, os._exit, (1,))
    dying.daemon = True
    dying.start()


@step
async def held(key: str) -> None:
    """Wait for ever the first time, end at once the second."""
    pen.note("step", key)
    try:
        os.close(os.open(Path(f"{os.environ[VARIABLE]}.{key}"), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    await asyncio.sleep(_FOREVER_S)


@step
async def sleep_on_lane(key: str) -> None:
    """Block the lane, GIL free."""
    pen.note("stuck", key)
    time.sleep(_FOREVER_S)  # noqa: ASYNC251 - the fault


@step
async def match_on_lane(key: str) -> None:
    """Block the lane, GIL held."""
    pen.note("stuck", key)
    re.match("(a+)+b", "a" * 64)


@workflow(name="once_held")
async def once_held(ctx: WorkflowContext, key: str) -> None:
    """A run that only its worker's death moves on."""
    await ctx.step(held, key)


@workflow(name="sleeps")
async def sleeps(ctx: WorkflowContext, key: str) -> None:
    """`time.sleep` on the lane."""
    await ctx.step(sleep_on_lane, key)


@workflow(name="matches")
async def matches(ctx: WorkflowContext, key: str) -> None:
    """A catastrophic regular expression on the lane."""
    await ctx.step(match_on_lane, key)
