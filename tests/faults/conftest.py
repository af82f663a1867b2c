"""What every test of faults starts from: a forge for the session, worlds for the test."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.faults.keeping import KEEPING
from tests.faults.scene import Scene, staged
from tests.faults.world import NewWorld, World

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def forge() -> Iterator[Path]:
    """The socket of a running forge. Paths of sockets are short, so the directory is, too."""
    with tempfile.TemporaryDirectory(prefix="pyf") as name:
        path = Path(name, "forge")
        command = [sys.executable, "-m", "tests.faults.forge", str(path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"open\n"
            yield path
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(10) == 0


@pytest.fixture
def isolation(request: pytest.FixtureRequest) -> str:
    """Where workers run the turns of async workflows; a test that says nothing gets the default."""
    return str(getattr(request, "param", "lane"))


@pytest.fixture
def keeping(request: pytest.FixtureRequest) -> str:
    """The kind of store that keeps a world's runs; a test that says nothing gets a file, or what TEST_KEEPING names."""
    return str(getattr(request, "param", os.environ.get("TEST_KEEPING", "sqlite")))


@pytest.fixture
def new_world(forge: Path, isolation: str, keeping: str) -> NewWorld:
    @asynccontextmanager
    async def made() -> AsyncIterator[World]:
        with tempfile.TemporaryDirectory(prefix="pyw") as name:
            world = World(Path(name), forge, isolation, await asyncio.to_thread(KEEPING[keeping]))
            await world.open()
            try:
                yield world
            finally:
                await world.close()

    return made


@pytest.fixture
async def world(new_world: NewWorld) -> AsyncIterator[World]:
    async with new_world() as one:
        yield one


@pytest.fixture
async def scene(forge: Path, request: pytest.FixtureRequest) -> AsyncIterator[Scene]:
    """A server of its own; with the parameter `shifted` its clock can be set."""
    async with staged(forge, is_shifted=getattr(request, "param", "") == "shifted") as one:
        yield one
