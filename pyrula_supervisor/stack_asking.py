"""The stack of a process that does not answer: taken from outside when the process itself keeps silent.

A process whose lane is blocked answers a `Dump` by itself. One that holds the GIL, or has not begun to listen, cannot;
after a moment the frames of its lane's thread, or of its main thread as long as it has no lane, are read from its
memory. That costs a millisecond, but waits for a lock of the process, which one in a bad state may hold for ever: so a
thread of its own does it, and nobody waits for long. Where memory cannot be read, a signal makes the thread write where
it is, and what stays the same for two looks at the file is complete. Either goes to the reducer as if the process had
said it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyrula_runtime import stacks
from pyrula_runtime.blackbox import read_box
from pyrula_runtime.blackbox.layout import box_path
from pyrula_runtime.wire import Stack, cut_behind
from pyrula_supervisor.events import Event, Said

# how long the process has to answer by itself, how long its memory may take to be read, and how often its file is
# looked at after a signal (seconds)
_PATIENCE_S = 0.3
_READ_S = 0.3
_LOOK_S = 0.02
_LOOKS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class _Thread:
    """Whose stack is wanted."""

    incarnation: str
    pid: int
    thread_id: int


class StackAsking:
    """The questions under way. All on the loop's thread."""

    def __init__(self, directory: Path, pid_of: Callable[[str], int], post: Callable[[Event], None]) -> None:
        self._directory = directory
        self._pid_of = pid_of
        self._post = post
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._being_read: set[_Thread] = set()
        # Of those that got the signal, what they say themselves: too late, since the signal may have woken them.
        self._late: dict[str, str] = {}

    @property
    def under_way(self) -> bool:
        """Whether somebody is waited for, or still read."""
        return bool(self._timers or self._being_read)

    def ask(self, incarnation: str) -> None:
        """It was asked just now."""
        if incarnation not in self._timers:
            self._later(_PATIENCE_S, incarnation, self._look_at)

    def take(self, incarnation: str, thread_id: int) -> None:
        """It cannot be asked: look at once, at this thread (0: its lane's)."""
        if incarnation not in self._late:
            self._drop_timer(incarnation)
            self._look_at(incarnation, thread_id)

    def is_answer(self, incarnation: str, text: str) -> bool:
        """It says its stack: whether that is the answer. If not, another one follows."""
        if incarnation in self._late:
            self._late[incarnation] = text
            return False
        self._drop_timer(incarnation)
        return True

    def forget(self, incarnation: str) -> None:
        """It is dead."""
        self._drop_timer(incarnation)
        self._late.pop(incarnation, None)

    def clear(self, incarnation: str) -> None:
        """It is dead, and nobody will read what it wrote at its end. That of a worker is evidence, for the clerk."""
        stacks.forget(stacks.stack_path(self._directory, incarnation))

    def _later(self, after_s: float, incarnation: str, act: Callable[[str], None]) -> asyncio.TimerHandle:
        timer = asyncio.get_running_loop().call_later(after_s, act, incarnation)
        self._timers[incarnation] = timer
        return timer

    def _drop_timer(self, incarnation: str) -> None:
        if (timer := self._timers.pop(incarnation, None)) is not None:
            timer.cancel()

    def _look_at(self, incarnation: str, thread_id: int = 0) -> None:
        """From outside: its memory first."""
        self._timers.pop(incarnation, None)
        pid = self._pid_of(incarnation)
        if not pid:
            return
        if not thread_id:
            box = read_box(box_path(self._directory, incarnation))
            thread_id = pid if box is None else box.lane_thread or pid
        thread = _Thread(incarnation=incarnation, pid=pid, thread_id=thread_id)
        if thread in self._being_read:  # for longer than it may take
            self._use_signal(thread)
            return
        self._being_read.add(thread)
        timer = self._later(_READ_S, incarnation, lambda _: self._use_signal(thread))
        reading = (thread, timer, asyncio.get_running_loop())
        try:
            threading.Thread(target=self._read, args=reading, name="stack", daemon=True).start()
        except RuntimeError:  # the host has no thread left
            self._has_read(thread, timer, "")

    def _read(self, thread: _Thread, timer: asyncio.TimerHandle, loop: asyncio.AbstractEventLoop) -> None:
        """On a thread of our own."""
        path = stacks.stack_path(self._directory, thread.incarnation)
        text = stacks.read(path, thread.pid, thread.thread_id)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody asks any more
            loop.call_soon_threadsafe(self._has_read, thread, timer, text)

    def _has_read(self, thread: _Thread, timer: asyncio.TimerHandle, text: str) -> None:
        self._being_read.discard(thread)
        if self._timers.get(thread.incarnation) is not timer:
            return  # it has answered, was sent the signal, is dead, or another of its threads counts now
        self._drop_timer(thread.incarnation)
        if text:
            self._answer(thread.incarnation, cut_behind(text))
        else:
            self._use_signal(thread)

    def _use_signal(self, thread: _Thread) -> None:
        self._timers.pop(thread.incarnation, None)
        path = stacks.stack_path(self._directory, thread.incarnation)
        begin = stacks.ask(path, thread.pid, thread.thread_id)
        if begin is not None:
            self._late[thread.incarnation] = ""
            self._look(thread.incarnation, path, begin, "", _LOOKS)

    def _look(self, incarnation: str, path: Path, begin: int, before: str, looks: int) -> None:
        text = stacks.written(path, begin)
        if looks and not (text and text == before):
            self._later(_LOOK_S, incarnation, lambda _: self._look(incarnation, path, begin, text, looks - 1))
            return
        self._timers.pop(incarnation, None)
        if answer := cut_behind(text) or self._late[incarnation]:
            self._answer(incarnation, answer)
        del self._late[incarnation]

    def _answer(self, incarnation: str, text: str) -> None:
        self._post(Said(now_ms=0, incarnation=incarnation, message=Stack(incarnation=incarnation, text=text)))
