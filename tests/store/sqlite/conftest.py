"""A store file, handles on it, and other processes: all ended with the test."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from pyrula_runtime.stores.clock import Clock, SystemClock
from pyrula_runtime.stores.sqlite.settings import Settings
from pyrula_runtime.stores.sqlite.store import SqliteStore
from tests.store.sites import SMALL

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, slots=True)
class Actor:
    """A process that performs an act of `actor.py`."""

    process: asyncio.subprocess.Process

    @property
    def pid(self) -> int:
        return self.process.pid

    async def line(self) -> str:
        assert self.process.stdout is not None
        return (await asyncio.wait_for(self.process.stdout.readline(), 60)).decode().strip()

    def tell(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"go\n")

    async def ended(self) -> int:
        return await self.process.wait()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
async def opened(path: Path) -> AsyncIterator[Callable[..., Awaitable[SqliteStore]]]:
    """Open a handle; closed at the end, newest first."""
    async with AsyncExitStack() as handles:

        async def open_one(settings: Settings = SMALL, clock: Clock | None = None, at: Path = path) -> SqliteStore:
            store = SqliteStore(at, clock or SystemClock(), settings)
            await store.open()
            handles.push_async_callback(store.close)
            return store

        yield open_one


@pytest.fixture
async def store(opened: Callable[..., Awaitable[SqliteStore]]) -> SqliteStore:
    return await opened()


@pytest.fixture
async def actor(path: Path) -> AsyncIterator[Callable[..., Awaitable[Actor]]]:
    """Start another process on the file."""
    started: list[Actor] = []

    async def start(act: str, *args: str) -> Actor:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.store.sqlite.actor",
            act,
            str(path),
            *args,
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        started.append(Actor(process))
        return started[-1]

    yield start
    for one in started:
        if one.process.returncode is None:
            one.process.kill()
        await one.process.wait()
