"""What is kept of an exception, however broken: a run whose error cannot be stored would never end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyrula_runtime.core.entries import Json
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.codec import dump_error, load_error
from pyrula_runtime.engine.failure import record_of
from pyrula_runtime.engine.program import Operations, Program
from tests.engine.lanes import lane_at_work, same, step


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Exiting(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class Sealed(Exception):
    @property
    def __cause__(self) -> BaseException:  # type: ignore[override]
        raise ZeroDivisionError


def nested(depth: int) -> BaseException:
    """A group in a group, and so on."""
    error: Exception = ValueError("innermost")
    for _ in range(depth):
        error = ExceptionGroup("group", [error])
    return error


NOT_UTF8 = ValueError("no file \udcff.txt")
BROKEN = [
    pytest.param(Mute(), "its message cannot be shown: RuntimeError", id="mute"),
    pytest.param(Exiting(), "its message cannot be shown: SystemExit", id="exiting"),
    pytest.param(Sealed("sealed"), "sealed", id="cause fails"),
    pytest.param(nested(5_000), "group (1 sub-exception)", id="too deep"),
    pytest.param(NOT_UTF8, r"no file \udcff.txt", id="not UTF-8"),
]


@pytest.mark.parametrize(("error", "message"), BROKEN)
def test_a_record_can_be_stored_and_is_the_same_afterwards(error: Exception, message: str) -> None:
    try:
        raise error
    except type(error) as raised:
        record = record_of(raised)
    assert record.message == message
    assert load_error(dump_error(record)) == record


@pytest.mark.parametrize("where", ["step", "async body", "plain body"])
@pytest.mark.parametrize(("error", "message"), BROKEN)
async def test_a_run_that_raises_it_fails(tmp_path: Path, where: str, error: Exception, message: str) -> None:
    async def boom() -> None:
        raise error

    async def body(operations: Operations, _input: Json) -> Any:
        if where == "step":
            await operations.ask(step(boom))
        raise error

    def plain(_operations: object, _input: Json) -> Any:
        raise error

    bodies: dict[str, Any] = {"run": plain} if where == "plain body" else {"start": body}
    program = Program(name="flow", version=None, to_json=same, **bodies)
    async with lane_at_work(tmp_path, [program]) as at_work:
        record = await at_work.run("flow")
        assert at_work.failures.empty()
    assert record.status is RunStatus.failed
    assert message in load_error(record.error or b"").message


async def test_a_result_that_fails_while_it_is_written_fails_its_run_alone(tmp_path: Path) -> None:
    def unwritable(_value: object) -> Json:
        raise SystemExit(3)

    async def body(_operations: Operations, _input: Json) -> None:
        return None

    program = Program(name="flow", version=None, to_json=unwritable, start=body)
    async with lane_at_work(tmp_path, [program]) as at_work:
        record = await at_work.run("flow")
        assert at_work.failures.empty()
    assert record.status is RunStatus.failed
    assert load_error(record.error or b"").message == "result: 3"
