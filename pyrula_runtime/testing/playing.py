"""How a simulation goes on: what can happen now happens, and then time moves to the next thing that is due.

One question is asked again and again, as soon as the loop is quiet: has the worker duties to do at the present time? If
not, and whoever plays is not content yet, the clock moves to the loop's next timer or to the next time that the store
waits for, whichever is first, but never past the limit.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from pyrula_runtime.testing.loop import SkippingLoop
from pyrula_runtime.testing.stage import Stage


class Rest(Enum):
    """Why a simulation does not go on."""

    content = "content"  # what was waited for has come
    limit = "limit"  # time would pass the limit
    stuck = "stuck"  # nothing will ever happen
    late = "late"  # somebody is at work for longer than was to be waited


async def play(stage: Stage, loop: SkippingLoop, is_content: Callable[[], bool], limit_ms: int | None) -> Rest:
    """Go on until one of these; `limit_ms` is a time of the wall clock, None: any."""
    clock = loop.clock
    while True:
        quiet = await loop.quiet()
        if quiet.is_late:
            return Rest.late
        if await stage.look():
            continue
        if is_content():
            return Rest.content
        due_ms = await stage.next_due_ms()
        left = [] if due_ms is None else [due_ms - clock.wall_ms()]
        if quiet.timer_ms is not None:
            left.append(quiet.timer_ms)
        if limit_ms is not None and all(clock.wall_ms() + each > limit_ms for each in left):
            clock.move(max(limit_ms - clock.wall_ms(), 0))
            return Rest.limit
        if not left:
            return Rest.stuck
        clock.move(min(left))
