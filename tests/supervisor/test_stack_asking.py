"""Stacks of real processes that keep silent: read from memory, by a signal where that fails, and by nobody too late."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyrula_runtime import stacks
from pyrula_runtime.core.frames import frames_of
from pyrula_runtime.stacks import stack_path
from pyrula_runtime.wire import Stack
from pyrula_supervisor.events import Event, Said
from pyrula_supervisor.stack_asking import StackAsking
from tests.engine.dying import NAME, Dying

LIMIT_S = 60
# a call that goes on after a signal, as not all of C's do
GUILTY = "print('on', flush=True)\nctypes.PyDLL(None).read(0, ctypes.create_string_buffer(9), 9)"


class Asked:
    """A process that holds the GIL, and who asks for its stack."""

    def __init__(self, folder: Path, code: str = GUILTY) -> None:
        self.process = Dying(folder, code)
        assert self.process.said() == "on"
        self.posted: asyncio.Queue[Event] = asyncio.Queue()
        self.asking = self.who_waits(LIMIT_S)
        self.path = stack_path(self.process.folder, NAME)

    def who_waits(self, read_s: float) -> StackAsking:
        """Who asks, and lets memory be read for so long."""
        pid = self.process.process.pid
        return StackAsking(self.process.folder, lambda _: pid, self.posted.put_nowait, read_s=read_s)

    async def answer(self) -> str:
        """What is posted next."""
        async with asyncio.timeout(LIMIT_S):
            event = await self.posted.get()
        assert isinstance(event, Said)
        assert isinstance(event.message, Stack)
        assert event.incarnation == NAME
        return event.message.text

    @staticmethod
    async def until(holds: Callable[[], object]) -> None:
        """Let the loop go round until something can be seen from outside."""
        async with asyncio.timeout(LIMIT_S):
            while not holds():  # noqa: ASYNC110 - there is no event to wait for on this side
                await asyncio.sleep(0)

    @property
    def signalled(self) -> int:
        """How often it wrote."""
        return self.path.read_text().count("(most recent call first)")


def readers() -> int:
    """How many threads read somebody's memory."""
    return sum(1 for thread in threading.enumerate() if thread.name == "stack")


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    made = Asked(tmp_path)
    yield made
    made.process.end()


class Hanging:
    """A memory that nobody can read until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reads = 0
        self.go = threading.Event()
        self._read = stacks.read
        monkeypatch.setattr(stacks, "read", self)

    def __call__(self, path: Path, pid: int, thread_id: int) -> str:
        self.reads += 1
        self.go.wait(LIMIT_S)
        return self._read(path, pid, thread_id)


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hanging]:
    made = Hanging(monkeypatch)
    yield made
    made.go.set()


async def test_memory_is_read_and_nobody_is_disturbed(asked: Asked) -> None:
    asked.asking.take(NAME, 0)
    assert "in guilty" in await asked.answer()
    assert asked.signalled == 0


async def test_who_does_not_answer_in_time_is_read(asked: Asked) -> None:
    asked.asking.ask(NAME)
    assert "in guilty" in await asked.answer()
    assert asked.signalled == 0


async def test_who_answers_by_itself_is_not_looked_at(asked: Asked, hanging: Hanging) -> None:
    asked.asking.ask(NAME)
    assert asked.asking.is_answer(NAME, "what it says")
    hanging.go.set()
    asked.asking.take(NAME, 0)
    assert "in guilty" in await asked.answer()
    assert hanging.reads == 1, "the second time"


async def test_who_is_being_read_is_asked_once(asked: Asked, hanging: Hanging) -> None:
    for _ in range(3):
        asked.asking.take(NAME, 0)
        asked.asking.ask(NAME)
    hanging.go.set()
    assert "in guilty" in await asked.answer()
    assert (hanging.reads, asked.signalled) == (1, 0)
    assert asked.posted.empty()


async def test_if_another_thread_counts_its_stack_is_the_answer(asked: Asked, hanging: Hanging) -> None:
    asked.asking.take(NAME, 1)  # no thread of this process: it would get the signal
    asked.asking.take(NAME, asked.process.process.pid)
    hanging.go.set()
    assert "in guilty" in await asked.answer()
    await asked.until(lambda: readers() == 0)
    assert (hanging.reads, asked.signalled) == (2, 0)


async def test_who_cannot_be_read_gets_the_signal(asked: Asked) -> None:
    asked.path.write_text("")
    asked.asking.take(NAME, 0)
    assert "in guilty" in await asked.answer()
    assert asked.signalled == 1
    assert asked.asking.is_answer(NAME, "what it says later")


async def test_who_says_something_after_the_signal_has_said_it_too_late(asked: Asked) -> None:
    asked.path.write_text("")
    asked.asking.take(NAME, 0)
    await asked.until(lambda: asked.signalled)
    assert not asked.asking.is_answer(NAME, "woken by the signal")
    assert "in guilty" in await asked.answer()


async def test_memory_that_hangs_is_not_waited_for(asked: Asked, hanging: Hanging) -> None:
    asked.asking = asked.who_waits(0)
    asked.asking.take(NAME, 0)
    assert "in guilty" in await asked.answer()
    assert (hanging.reads, asked.signalled) == (1, 1)
    asked.asking.take(NAME, 0)  # a second thread would hang as well
    assert "in guilty" in await asked.answer()
    assert (hanging.reads, asked.signalled) == (1, 2)
    hanging.go.set()
    await asked.until(lambda: readers() == 0)
    assert asked.posted.empty()


async def test_of_the_dead_nothing_comes_any_more(asked: Asked, hanging: Hanging) -> None:
    asked.asking.take(NAME, 0)
    asked.asking.forget(NAME)
    asked.asking.take(NAME, 0)
    hanging.go.set()
    assert "in guilty" in await asked.answer()
    await asked.until(lambda: readers() == 0)
    assert asked.posted.empty()
    assert asked.signalled == 0


async def test_a_look_that_fails_leaves_the_signal(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_: object) -> str:
        raise MemoryError

    told: list[object] = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    monkeypatch.setattr(stacks, "read", no_memory)
    for times in (1, 2):
        asked.asking.take(NAME, 0)
        assert "in guilty" in await asked.answer()
        assert asked.signalled == times
        await asked.until(lambda: len(told) == times)  # noqa: B023 - it is awaited here


async def test_without_a_thread_to_read_it_gets_the_signal(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none_left)
    asked.asking.take(NAME, 0)
    assert "in guilty" in await asked.answer()
    assert asked.signalled == 1


# as deep, and of so long a name, that not all of its frames fit
DEEP = f"""
def {"deeper" * 20}(n):
    if n:
        {"deeper" * 20}(n - 1)
    else:
        print('on', flush=True)
        ctypes.PyDLL(None).read(0, ctypes.create_string_buffer(9), 9)
{"deeper" * 20}(200)
"""


@pytest.mark.parametrize("whereabouts", ["told", "untold"])
async def test_of_a_deep_stack_the_innermost_frames_come(tmp_path: Path, whereabouts: str) -> None:
    asked = Asked(tmp_path, DEEP)
    try:
        whole = asked.process.program.read_text().splitlines()
        if whereabouts == "untold":
            asked.path.write_text("")
        asked.asking.take(NAME, 0)
        frames = frames_of(await asked.answer())
    finally:
        asked.process.end()
    lines = [whole[frame.line - 1].strip().partition("(")[0] for frame in frames]
    assert lines[-2] == "deeper" * 20
    assert lines[-1] in ("print", "ctypes.PyDLL")
    assert 10 < len(lines) < 100
