"""The stack of a process that does not answer: asked of the kernel when the process itself keeps silent.

A process whose lane is blocked answers a `Dump` by itself. One that holds the GIL, or has not begun to listen, cannot;
after a moment it gets the signal that makes its lane's thread, or its main thread as long as it has no lane, write
where it is. What stays the same for two looks is complete, and goes to the reducer as if the process had said it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from pyrula_runtime import stacks
from pyrula_runtime.blackbox import read_box
from pyrula_runtime.blackbox.layout import box_path
from pyrula_runtime.wire import Stack, cut
from pyrula_supervisor.events import Event, Said

# how long the process has to answer by itself, and how often its file is looked at afterwards (seconds)
_PATIENCE_S = 0.3
_LOOK_S = 0.02
_LOOKS = 50


class StackAsking:
    """The questions under way. All on the loop's thread."""

    def __init__(self, directory: Path, pid_of: Callable[[str], int], post: Callable[[Event], None]) -> None:
        self._directory = directory
        self._pid_of = pid_of
        self._post = post
        self._timers: dict[str, asyncio.TimerHandle] = {}
        # Of those that got the signal, what they say themselves: too late, since the signal may have woken them.
        self._late: dict[str, str] = {}

    def ask(self, incarnation: str) -> None:
        """It was asked just now."""
        if incarnation not in self._timers:
            self._later(_PATIENCE_S, incarnation, self._use_signal)

    def take(self, incarnation: str, thread_id: int) -> None:
        """It cannot be asked: look at once, at this thread (0: its lane's)."""
        if incarnation not in self._late:
            self._drop_timer(incarnation)
            self._use_signal(incarnation, thread_id)

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

    def _later(self, after_s: float, incarnation: str, act: Callable[[str], None]) -> None:
        self._timers[incarnation] = asyncio.get_running_loop().call_later(after_s, act, incarnation)

    def _drop_timer(self, incarnation: str) -> None:
        if (timer := self._timers.pop(incarnation, None)) is not None:
            timer.cancel()

    def _use_signal(self, incarnation: str, thread_id: int = 0) -> None:
        self._timers.pop(incarnation, None)
        pid = self._pid_of(incarnation)
        if not pid:
            return
        if not thread_id:
            box = read_box(box_path(self._directory, incarnation))
            thread_id = pid if box is None else box.lane_thread or pid
        path = stacks.stack_path(self._directory, incarnation)
        begin = stacks.ask(path, pid, thread_id)
        if begin is not None:
            self._late[incarnation] = ""
            self._look(incarnation, path, begin, "", _LOOKS)

    def _look(self, incarnation: str, path: Path, begin: int, before: str, looks: int) -> None:
        text = stacks.written(path, begin)
        if looks and not (text and text == before):
            self._later(_LOOK_S, incarnation, lambda _: self._look(incarnation, path, begin, text, looks - 1))
            return
        self._timers.pop(incarnation, None)
        if answer := text or self._late[incarnation]:
            message = Stack(incarnation=incarnation, text=cut(answer))
            self._post(Said(now_ms=0, incarnation=incarnation, message=message))
        del self._late[incarnation]
