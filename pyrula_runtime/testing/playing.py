"""How a simulation goes on: what can happen now happens, and then time moves to the next thing that is due.

One question is asked again and again, as soon as the loop is quiet: is there anything to do at the present time? If
not, and whoever plays is not content yet, the clock moves to the loop's next timer, but never past the limit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum

from pyrula_runtime.testing.loop import SkippingLoop
from pyrula_runtime.testing.stage import Stage


class Rest(Enum):
    """Why a simulation does not go on."""

    content = "content"  # what was waited for has come
    limit = "limit"  # time would pass the limit
    stuck = "stuck"  # nothing will ever happen
    late = "late"  # it goes on, or somebody is at work, for longer than was to be waited


async def play(stage: Stage, loop: SkippingLoop, is_content: Callable[[], bool], limit_ms: int | None) -> Rest:
    """Go on until one of these; `limit_ms` is a time of the wall clock, None: any."""
    clock = loop.clock
    while True:
        quiet = await loop.quiet()
        if quiet.is_late or time.monotonic() > loop.deadline_s:
            return Rest.late
        if await stage.look():
            continue
        if is_content():
            return Rest.content
        left_ms = None if limit_ms is None else limit_ms - clock.wall_ms()
        if left_ms is not None and (quiet.timer_ms is None or quiet.timer_ms > left_ms):
            clock.move(max(left_ms, 0))
            return Rest.limit
        if quiet.timer_ms is None:
            return Rest.stuck
        clock.move(quiet.timer_ms)
