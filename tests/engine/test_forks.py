"""A fork that comes back from user code ends there: two processes on one lane would do everything twice."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyrula_runtime.core.entries import Json
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.program import Operations, Program
from tests.engine.lanes import lane_at_work, same, step

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")

ENDED_BY_US = 1


def fork_and_return() -> int:
    child = os.fork()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) if child else 7


def fork_and_exit() -> int:
    child = os.fork()
    if not child:
        raise SystemExit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


async def fork_on_the_lane() -> int:
    return fork_and_return()


@pytest.mark.parametrize("forking", [fork_and_return, fork_and_exit, fork_on_the_lane])
async def test_a_fork_ends_where_it_leaves_a_step(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], forking: Callable[[], Any]
) -> None:
    async def body(operations: Operations, _input: Json) -> Any:
        return await operations.ask(step(forking))

    program = Program(name="flow", version=None, to_json=same, start=body)
    async with lane_at_work(tmp_path, [program]) as at_work:
        record = await at_work.run("flow")
    assert (record.status, record.result) == (RunStatus.completed, b"%d" % ENDED_BY_US)
    assert "forked came back" in capfd.readouterr().err


@pytest.mark.parametrize("kind", ["start", "run"])
async def test_a_fork_ends_where_it_leaves_a_body(tmp_path: Path, capfd: pytest.CaptureFixture[str], kind: str) -> None:
    async def body(_operations: Operations, _input: Json) -> int:
        return fork_and_return()

    def plain(_operations: object, _input: Json) -> int:
        return fork_and_exit()

    bodies: dict[str, Any] = {"start": body} if kind == "start" else {"run": plain}
    program = Program(name="flow", version=None, to_json=same, **bodies)
    async with lane_at_work(tmp_path, [program]) as at_work:
        record = await at_work.run("flow")
    assert (record.status, record.result) == (RunStatus.completed, b"%d" % ENDED_BY_US)
    assert "forked came back" in capfd.readouterr().err
