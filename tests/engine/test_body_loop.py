"""A body's loop: what works on it, what is refused, how branches are numbered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from pyrula_runtime.engine.body_loop import BodyLoop, BodyOperationRefused


def outcome(body: Callable[[BodyLoop], Awaitable[Any]]) -> Any:
    """Run a body that needs nothing from outside, and give what it returns."""
    loop = BodyLoop()

    async def root() -> Any:
        return await body(loop)

    task = loop.create_root(root())
    loop.drain()
    assert task.done()
    return task.result()


async def refused(act: Callable[[], Awaitable[Any]]) -> str:
    with pytest.raises(BodyOperationRefused) as caught:
        await act()
    return str(caught.value)


@pytest.mark.parametrize(
    ("act", "hint"),
    [
        (lambda: asyncio.sleep(1), "ctx.sleep(seconds)"),
        (lambda: asyncio.wait_for(asyncio.get_running_loop().create_future(), 1), "ctx.timeout(seconds)"),
        (lambda: asyncio.to_thread(print), "ctx.step"),
        (lambda: asyncio.open_connection("127.0.0.1", 1), "ctx.step"),
        (lambda: asyncio.create_subprocess_exec("true"), "ctx.step"),
    ],
    ids=["sleep", "wait_for", "to_thread", "connection", "subprocess"],
)
def test_time_threads_and_io_are_refused_with_the_durable_way(act: Callable[[], Awaitable[Any]], hint: str) -> None:
    assert hint in outcome(lambda _loop: refused(act))


def test_a_pause_of_nothing_is_allowed() -> None:
    async def body(_loop: BodyLoop) -> str:
        await asyncio.sleep(0)
        return "done"

    assert outcome(body) == "done"


def test_asyncio_synchronisation_works_and_is_first_in_first_out() -> None:
    async def body(_loop: BodyLoop) -> list[int]:
        seen: list[int] = []
        queue: asyncio.Queue[int] = asyncio.Queue()
        lock = asyncio.Lock()

        async def take() -> None:
            async with lock:
                seen.append(await queue.get())

        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(take())
            for number in range(3):
                queue.put_nowait(number)
        return seen

    assert outcome(body) == [0, 1, 2]


def test_branches_are_numbered_by_coroutine_within_the_branch_that_starts_them() -> None:
    async def body(loop: BodyLoop) -> list[str]:
        async def other() -> None:
            return None

        async def one() -> str:
            return loop.branch().op_id("work")

        aside = asyncio.ensure_future(other())
        first = await asyncio.gather(one(), one())
        await aside
        return [loop.branch().op_id("work"), *first]

    ids = outcome(body)
    assert ids[0] == "work#1"
    assert [name.rsplit(".", 1)[1] for name in ids[1:]] == ["one()#1/work#1", "one()#2/work#1"]


def test_the_outer_loop_is_running_again_after_a_drain() -> None:
    async def outside() -> None:
        before = asyncio.get_running_loop()
        outcome(lambda _loop: asyncio.sleep(0))
        assert asyncio.get_running_loop() is before

    asyncio.run(outside())


def test_a_body_that_exits_ends_only_itself() -> None:
    async def body(_loop: BodyLoop) -> None:
        raise SystemExit(3)

    loop = BodyLoop()
    task = loop.create_root(body(loop))
    loop.drain()
    assert isinstance(task.exception(), SystemExit)


def test_unfinished_async_generators_stay_with_the_body() -> None:
    async def numbers() -> AsyncIterator[int]:
        for number in range(3):
            yield number

    async def body(_loop: BodyLoop) -> int:
        async for number in numbers():
            return number
        return -1

    assert outcome(body) == 0


def test_sets_of_tasks_have_the_order_of_their_making() -> None:
    async def body(loop: BodyLoop) -> list[int]:
        order: list[int] = []

        async def child(number: int) -> None:
            try:
                await loop.create_future()
            finally:
                order.append(number)

        async def breaks() -> None:
            raise ValueError

        async def group_breaks() -> None:
            async with asyncio.TaskGroup() as group:
                for number in range(50):
                    group.create_task(child(number))
                group.create_task(breaks())

        with pytest.raises(ExceptionGroup):
            await group_breaks()
        return order

    assert outcome(body) == list(range(50))
