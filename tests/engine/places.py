"""All the places in which code that a step has started may block its lane."""

from __future__ import annotations

import asyncio
import builtins
import importlib
import os
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.engine.lanes import LIMIT_S

Blocks = Callable[[], None]
Step = Callable[[Blocks], Awaitable[None]]


class Gate:
    """Where code blocks until it is let go, and who waits for that knows it is there."""

    def __init__(self) -> None:
        self.passed = threading.Event()
        self.come = threading.Event()

    def blocks(self) -> None:
        """Block the calling thread."""
        self.come.set()
        self.passed.wait(LIMIT_S)  # the guilty line


async def _called(call: Callable[[Callable[..., None]], object], blocks: Blocks) -> None:
    """Let a callback be called that blocks, and wait until it is through."""
    over = asyncio.Event()

    def callback(*_: object) -> None:
        blocks()
        over.set()

    call(callback)
    await over.wait()


async def step_itself(blocks: Blocks) -> None:
    blocks()


async def child_task(blocks: Blocks) -> None:
    await asyncio.create_task(step_itself(blocks))


async def grandchild_task(blocks: Blocks) -> None:
    await asyncio.gather(child_task(blocks), asyncio.sleep(0))


async def task_group(blocks: Blocks) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(step_itself(blocks))


async def done_callback(blocks: Blocks) -> None:
    task = asyncio.create_task(asyncio.sleep(0))
    await _called(task.add_done_callback, blocks)


async def call_soon(blocks: Blocks) -> None:
    await _called(asyncio.get_running_loop().call_soon, blocks)


async def call_later(blocks: Blocks) -> None:
    await _called(lambda callback: asyncio.get_running_loop().call_later(0.001, callback), blocks)


async def call_at(blocks: Blocks) -> None:
    loop = asyncio.get_running_loop()
    await _called(lambda callback: loop.call_at(loop.time(), callback), blocks)


async def call_soon_threadsafe(blocks: Blocks) -> None:
    loop, over = asyncio.get_running_loop(), asyncio.Event()

    def callback() -> None:
        blocks()
        over.set()

    await asyncio.to_thread(loop.call_soon_threadsafe, callback)
    await over.wait()


async def reader(blocks: Blocks) -> None:
    ours, theirs = os.pipe()
    os.write(theirs, b"x")
    loop = asyncio.get_running_loop()
    await _called(lambda callback: loop.add_reader(ours, callback), blocks)
    loop.remove_reader(ours)
    os.close(ours)
    os.close(theirs)


async def generator_finaliser(blocks: Blocks) -> None:
    over = asyncio.Event()

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            blocks()
            over.set()

    generator = numbers()
    await anext(generator)
    del generator
    await over.wait()


async def destructor(blocks: Blocks) -> None:
    class Costly:
        def __del__(self) -> None:
            blocks()

    costly = Costly()
    await asyncio.sleep(0)
    del costly


async def context_exit(blocks: Blocks) -> None:
    @contextmanager
    def costly() -> Iterator[None]:
        yield
        blocks()

    with costly():
        await asyncio.sleep(0)


async def async_context_exit(blocks: Blocks) -> None:
    @asynccontextmanager
    async def costly() -> AsyncIterator[None]:
        yield
        blocks()

    async with costly():
        await asyncio.sleep(0)


async def import_inside(blocks: Blocks) -> None:
    with TemporaryDirectory() as folder:
        Path(folder, "costly_module.py").write_text("import builtins\nbuiltins.pyrula_blocks()\n")
        sys.path.insert(0, folder)
        vars(builtins)["pyrula_blocks"] = blocks
        try:
            importlib.import_module("costly_module")
        finally:
            del vars(builtins)["pyrula_blocks"]
            sys.modules.pop("costly_module", None)
            sys.path.remove(folder)


async def eager_task(blocks: Blocks) -> None:
    kind: Any = asyncio.Task
    await kind(step_itself(blocks), loop=asyncio.get_running_loop(), eager_start=True)


PLACES: dict[str, Step] = {
    each.__name__: each
    for each in (
        step_itself,
        child_task,
        grandchild_task,
        task_group,
        done_callback,
        call_soon,
        call_later,
        call_at,
        call_soon_threadsafe,
        reader,
        generator_finaliser,
        destructor,
        context_exit,
        async_context_exit,
        import_inside,
        *([eager_task] if sys.version_info >= (3, 12) else []),
    )
}
