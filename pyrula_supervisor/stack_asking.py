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
from enum import Enum
from functools import partial
from pathlib import Path

from pyrula_runtime import stacks
from pyrula_runtime.blackbox import read_box
from pyrula_runtime.blackbox.layout import box_path
from pyrula_runtime.wire import Stack, cut_behind
from pyrula_supervisor.events import Event, Said

# how long the process has to answer by itself, how long its memory may take to be read, and how often its file is
# looked at after a signal (seconds)
_PATIENCE_S = 0.3
_READ_S = 1.0
_LOOK_S = 0.02
_LOOKS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class _Thread:
    """Whose stack is wanted."""

    incarnation: str
    pid: int
    thread_id: int


class _Stage(Enum):
    asked = "it may answer by itself"
    read = "its memory is being read"
    signalled = "it got the signal"


@dataclass(slots=True, eq=False)
class _Question:
    """A question under way; a process has one at most."""

    stage: _Stage
    thread: _Thread | None = None
    timer: asyncio.TimerHandle | None = None
    said: str = ""  # what it says itself after the signal: too late, since that may have woken it


class StackAsking:
    """The questions under way. All on the loop's thread."""

    def __init__(
        self,
        directory: Path,
        pid_of: Callable[[str], int],
        post: Callable[[Event], None],
        *,
        read_s: float = _READ_S,
    ) -> None:
        self._directory = directory
        self._pid_of = pid_of
        self._post = post
        self._read_s = read_s
        self._questions: dict[str, _Question] = {}
        # those in whose memory somebody hangs: nobody else tries then
        self._hanging: set[_Thread] = set()

    def ask(self, incarnation: str) -> None:
        """It was asked just now."""
        if incarnation not in self._questions:
            question = self._questions[incarnation] = _Question(_Stage.asked)
            self._later(_PATIENCE_S, question, lambda: self._look_at(incarnation, self._thread(incarnation, 0)))

    def take(self, incarnation: str, thread_id: int) -> None:
        """It cannot be asked: look at once, at this thread (0: its lane's)."""
        question, thread = self._questions.get(incarnation), self._thread(incarnation, thread_id)
        is_coming = question is not None and (
            question.stage is _Stage.signalled or (question.stage is _Stage.read and question.thread == thread)
        )
        if not is_coming:
            self._look_at(incarnation, thread)

    def is_answer(self, incarnation: str, text: str) -> bool:
        """It says its stack: whether that is the answer. If not, another one follows."""
        question = self._questions.get(incarnation)
        if question is not None and question.stage is _Stage.signalled:
            question.said = text
            return False
        self.forget(incarnation)
        return True

    def forget(self, incarnation: str) -> None:
        """It is dead, or has answered."""
        question = self._questions.pop(incarnation, None)
        if question is not None and question.timer is not None:
            question.timer.cancel()

    def clear(self, incarnation: str) -> None:
        """It is dead, and nobody will read what it wrote at its end. That of a worker is evidence, for the clerk."""
        stacks.forget(stacks.stack_path(self._directory, incarnation))

    def _thread(self, incarnation: str, thread_id: int) -> _Thread:
        pid = self._pid_of(incarnation)
        if not thread_id:
            box = read_box(box_path(self._directory, incarnation))
            thread_id = pid if box is None else box.lane_thread or pid
        return _Thread(incarnation=incarnation, pid=pid, thread_id=thread_id)

    def _later(self, after_s: float, question: _Question, act: Callable[[], None]) -> None:
        question.timer = asyncio.get_running_loop().call_later(after_s, act)

    def _look_at(self, incarnation: str, thread: _Thread) -> None:
        """From outside: its memory first."""
        self.forget(incarnation)
        if not thread.pid:
            return
        question = self._questions[incarnation] = _Question(_Stage.read, thread)
        if thread in self._hanging:
            self._use_signal(question, thread)
            return
        self._later(self._read_s, question, lambda: self._give_up(question, thread))
        reading = (question, thread, asyncio.get_running_loop())
        try:
            threading.Thread(target=self._read, args=reading, name="stack", daemon=True).start()
        except RuntimeError:  # the host has no thread left
            self._has_read(question, thread, "")

    def _read(self, question: _Question, thread: _Thread, loop: asyncio.AbstractEventLoop) -> None:
        """On a thread of our own."""
        text = ""
        try:
            text = stacks.read(stacks.stack_path(self._directory, thread.incarnation), thread.pid, thread.thread_id)
        finally:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody asks any more
                loop.call_soon_threadsafe(self._has_read, question, thread, text)

    def _has_read(self, question: _Question, thread: _Thread, text: str) -> None:
        self._hanging.discard(thread)
        if self._questions.get(thread.incarnation) is not question or question.stage is not _Stage.read:
            return  # it has answered, was sent the signal, is dead, or another of its threads counts now
        if text:
            self._answer(thread.incarnation, cut_behind(text))
        else:
            self._use_signal(question, thread)

    def _give_up(self, question: _Question, thread: _Thread) -> None:
        self._hanging.add(thread)
        self._use_signal(question, thread)

    def _use_signal(self, question: _Question, thread: _Thread) -> None:
        if question.timer is not None:
            question.timer.cancel()
        question.stage = _Stage.signalled
        path = stacks.stack_path(self._directory, thread.incarnation)
        begin = stacks.ask(path, thread.pid, thread.thread_id)
        if begin is None:
            self.forget(thread.incarnation)
        else:
            self._look(question, thread.incarnation, partial(stacks.written, path, begin))

    def _look(
        self, question: _Question, incarnation: str, written: Callable[[], str], before: str = "", looks: int = _LOOKS
    ) -> None:
        text = written()
        if looks and not (text and text == before):
            self._later(_LOOK_S, question, lambda: self._look(question, incarnation, written, text, looks - 1))
        else:
            self._answer(incarnation, cut_behind(text) or question.said)

    def _answer(self, incarnation: str, text: str) -> None:
        self.forget(incarnation)
        if text:
            self._post(Said(now_ms=0, incarnation=incarnation, message=Stack(incarnation=incarnation, text=text)))
