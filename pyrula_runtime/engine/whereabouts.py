"""Where the runs of a lane are that it does not execute now: what their steps wait for, and what their threads do.

The lane's own stack shows one run, or none. Who takes all the memory a little at a time is hardly ever caught there;
its step waits at its own line for most of the time. Steps on the lane are found by the names of their tasks, threads by
the frame in which all of a run's code in a thread is called. Whoever asks is another thread, so what moves on meanwhile
may be missed; and of more runs than people read nothing is told, so that one alone in the text was alone.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Iterator
from types import CodeType, FrameType

from pyrula_runtime.core.entries import Op
from pyrula_runtime.core.frames import Frame, as_text
from pyrula_runtime.engine.current import Current
from pyrula_runtime.engine.presence import ThreadSpan
from pyrula_runtime.users_code import frame_at, frames_around

_TASK = "step of "
# as much text as fits a packet beside the end of the lane's own stack, in characters; and of each stack so many frames
_MOST = 3_500
_FRAMES = 8
_AROUND: CodeType = ThreadSpan.around.__code__


def task_name(whose: Current, op: Op) -> str:
    """What the task of a step is called."""
    return f"{_TASK}run {whose.run_id} ({whose.workflow}, {op.op_id})"


def of_all(loops: Iterable[asyncio.AbstractEventLoop]) -> str:
    """The stacks of all runs in flight on these loops, each under its title; nothing if they are too many."""
    text = "".join([*(stack for loop in loops for stack in waiting(loop)), *in_threads()])
    return text if len(text) <= _MOST else ""


def waiting(loop: asyncio.AbstractEventLoop) -> Iterator[str]:
    """The stacks of the steps that are tasks of this loop, each under its title."""
    for task in asyncio.all_tasks(loop):
        name = task.get_name()
        if name.startswith(_TASK):
            yield f"{name.removeprefix(_TASK)} is at\n{as_text([*_frames(task.get_coro())][-_FRAMES:])}"


def in_threads() -> Iterator[str]:
    """The stacks of all threads of this process that are in the code of a run; bodies before steps."""
    found = []
    for frame in sys._current_frames().values():
        if (span := _span(frame)) is not None:
            place = span.place
            where = f"step {place.step}" if place.step else "its body"
            title = f"run {place.run_id} ({place.workflow}, {where}) has a thread at\n"
            found.append((bool(place.step), title + as_text(frames_around(frame)[-_FRAMES:])))
    return (stack for _, stack in sorted(found))


def _frames(awaitable: object) -> Iterator[Frame]:
    """What a suspended coroutine waits in, outermost first."""
    while (frame := getattr(awaitable, "cr_frame", None)) is not None:
        yield frame_at(frame.f_code, frame.f_lineno or 0)
        awaitable = getattr(awaitable, "cr_await", None)


def _span(frame: FrameType | None) -> ThreadSpan | None:
    while frame is not None and frame.f_code is not _AROUND:
        frame = frame.f_back
    return None if frame is None else frame.f_locals["self"]
