"""Workflows whose second step blocks or kills its worker, each time; and what each has to be found guilty of.

A supervisor that serves this module from a template has the calls of its workers to the store written down, if the
environment says where: the template imports the app before it forks, so the door to the stores is another one then.
"""

from __future__ import annotations

import ctypes
import os
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyrula.workflows import WorkflowContext, step, workflow
from pyrula_runtime.stores import opening
from pyrula_runtime.stores.protocol import Store
from tests.faults.history import recorded
from tests.faults.workflows import leave_mark

HISTORIES = "TEST_HISTORIES"
_MEGABYTE = 1 << 20


@step
async def sleep() -> None:
    time.sleep(3600)  # noqa: ASYNC251 - the deed


@step
async def match() -> None:
    re.match("(a+)+b", "a" * 64)


@step
async def segfault() -> None:
    ctypes.string_at(0)


@step
async def abort() -> None:
    os.abort()


@step
async def leave() -> None:
    os._exit(7)


@step
def leak() -> None:
    kept, never = [], threading.Event()
    while not never.wait(1 / 128):
        kept.append(b"\1" * _MEGABYTE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a run of a guilty workflow is quarantined for; `code` is empty where no line can be told."""

    step: str
    cause: str
    code: str = ""
    or_cause: str = ""  # if it had the store's write lock each time

    @property
    def place(self) -> str:
        """File and line number of the code, as a line of evidence begins."""
        lines = Path(__file__).read_text().splitlines()
        return next((f"{__file__}:{number} " for number, line in enumerate(lines, 1) if self.code in line), "")


VERDICTS = {
    "sleeps": Verdict(step="sleep", cause="loop_blocked", code="time.sleep(3600)"),
    "matches": Verdict(step="match", cause="loop_blocked", code="re.match(", or_cause="store_frozen"),
    "segfaults": Verdict(step="segfault", cause="crashed", code="ctypes.string_at(0)"),
    "aborts": Verdict(step="abort", cause="crashed", code="os.abort()"),
    "leaves": Verdict(step="leave", cause="exited", code="os._exit(7)"),
    "leaks": Verdict(step="leak", cause="out_of_memory"),
}


@workflow(name="sleeps")
async def sleeps(ctx: WorkflowContext, effects: str) -> None:
    await ctx.step(leave_mark, effects, 0)
    await ctx.step(sleep)


@workflow(name="matches")
async def matches(ctx: WorkflowContext, effects: str) -> None:
    await ctx.step(leave_mark, effects, 0)
    await ctx.step(match)


@workflow(name="segfaults")
async def segfaults(ctx: WorkflowContext, effects: str) -> None:
    await ctx.step(leave_mark, effects, 0)
    await ctx.step(segfault)


@workflow(name="aborts")
async def aborts(ctx: WorkflowContext, effects: str) -> None:
    await ctx.step(leave_mark, effects, 0)
    await ctx.step(abort)


@workflow(name="leaves")
async def leaves(ctx: WorkflowContext, effects: str) -> None:
    await ctx.step(leave_mark, effects, 0)
    await ctx.step(leave)


@workflow(name="leaks")
async def leaks(ctx: WorkflowContext, effects: str) -> None:
    await ctx.step(leave_mark, effects, 0)
    await ctx.step(leak)


def _recording(open_store: Callable[..., Store], folder: Path) -> Callable[..., Store]:
    def opened(url: str, **given: Any) -> Store:
        name = f"pid{os.getpid()}"
        return recorded(open_store(url, **given), folder / f"{name}.history", name)

    return opened


if HISTORIES in os.environ:
    opening.open_store = _recording(opening.open_store, Path(os.environ[HISTORIES]))
