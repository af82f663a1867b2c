"""Isolated turns in tests: workflows of one step, a step that blocks, and the end of it all."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

from pyrula_runtime.core.entries import Json
from pyrula_runtime.engine.program import Operations, Program, StepCall
from pyrula_runtime.options import Isolation
from tests.engine.lanes import LIMIT_S, LaneAtWork, same, step


def flow(call: StepCall, name: str = "flow", isolation: Isolation | None = "turn") -> Program:
    """A workflow of one step, isolated unless it is said otherwise."""

    def start(operations: Operations, _input: Json) -> Coroutine[Any, Any, Any]:
        async def body() -> Any:
            return await operations.ask(call)

        return body()

    return Program(name=name, version=None, start=start, to_json=same, isolation=isolation)


class Gate:
    """A step that blocks its thread until it is let go."""

    def __init__(self) -> None:
        self.began, self.open = threading.Event(), threading.Event()

        async def block() -> None:
            self.began.set()
            self.open.wait(LIMIT_S)

        self.call = step(block)

    async def until_began(self) -> None:
        assert await asyncio.to_thread(self.began.wait, LIMIT_S)


async def gone(at_work: LaneAtWork) -> None:
    """Return when no isolated lane is left."""
    for turn in at_work.lanes.isolated():
        await asyncio.to_thread(turn.lane.thread.join, LIMIT_S)
    assert at_work.lanes.isolated() == []


async def where() -> str:
    return f"{threading.current_thread().name} {id(asyncio.get_running_loop())}"
