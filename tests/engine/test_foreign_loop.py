"""A step that uses what belongs to another loop is told so, and which global it most likely is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from pyrula_runtime.engine.failure import record_of
from pyrula_runtime.engine.foreign_loop import explained

LOCK = asyncio.Lock()
QUEUE: asyncio.Queue[int] = asyncio.Queue()
CLIENT = httpx.AsyncClient()


class Oracle:
    """An object of the user's with a client in it."""

    def __init__(self) -> None:
        self.name = "oracle"
        self.client = httpx.AsyncClient()

    async def ask(self) -> None:
        raise ConnectionError("connection error") from RuntimeError("Event loop is closed")


ORACLE = Oracle()


def failure(call: Callable[[], Awaitable[Any]]) -> str:
    """What is kept of the call's error."""

    async def run() -> str:
        try:
            await explained(call)()
        except Exception as error:  # noqa: BLE001 - whatever it is
            return record_of(error).traceback
        return "nothing failed"

    return asyncio.run(run())


async def contend() -> None:
    """Use the lock as two do at once: then it keeps the loop."""

    async def hold() -> None:
        async with LOCK:
            await asyncio.sleep(0)

    await asyncio.gather(hold(), hold())


def test_a_lock_of_another_loop_is_named() -> None:
    asyncio.run(contend())
    said = failure(contend)
    assert "bound to a different event loop" in said
    assert f"most likely {__name__}.LOCK. Make it with lane_local(...) of pyrula.workflows" in said


async def take() -> int:
    return await QUEUE.get()


def test_a_queue_of_another_loop_is_named() -> None:
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(take(), 0.001))
    said = failure(take)
    assert f"most likely {__name__}.QUEUE. Make it with lane_local(...)" in said
    assert 'isolation="lane"' in said


async def fetch() -> None:
    assert CLIENT.headers
    raise RuntimeError("Event loop is closed")


async def serve() -> None:
    await ORACLE.ask()


def test_a_client_is_named_also_inside_an_object_and_behind_a_cause() -> None:
    assert f"most likely {__name__}.CLIENT." in failure(fetch)
    assert f"most likely {__name__}.ORACLE.client." in failure(serve)


def test_what_a_function_closes_over_is_named() -> None:
    queue: asyncio.Queue[int] = asyncio.Queue()

    async def inner() -> int:
        return await queue.get()

    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(inner(), 0.001))
    assert "most likely queue around inner()." in failure(inner)


async def nothing_named() -> None:
    future: asyncio.Future[None] = KEPT[0]
    await future


KEPT: list[Any] = []


def test_without_a_suspect_it_is_told_all_the_same() -> None:
    loop = asyncio.new_event_loop()
    KEPT.append(loop.create_future())
    loop.close()
    said = failure(nothing_named)
    assert "attached to a different loop" in said
    assert "most likely a global." in said


async def broken() -> None:
    assert not LOCK.locked()
    raise RuntimeError("the event was cancelled")


async def fine() -> int:
    return 1


def test_other_errors_and_none_stay_as_they_are() -> None:
    assert "lane_local" not in failure(broken)
    assert failure(fine) == "nothing failed"


async def circular() -> None:
    first, second = ValueError("one"), ValueError("two")
    first.__cause__, second.__cause__ = second, first
    raise first


def test_errors_that_name_each_other_as_cause_come_to_an_end() -> None:
    assert "two" in failure(circular)
