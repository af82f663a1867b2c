"""The watchdog thread: notices that the lane makes no progress and says whose code blocks it, and on which line.

It asks the lane's loop for an answer a few times per `block_warn` and waits. No answer for that long means that some
code keeps the loop; whose it is, the lane knows (see presence and lane_loop). Code of no run is reported as such.

Only time in which this process could run counts. When the watchdog itself wakes up late, either the process was
stopped, frozen or starved (it used little CPU meanwhile, and the span is struck out), or a C call kept the GIL (it used
the CPU, and the span counts in full).
"""

from __future__ import annotations

import linecache
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import FrameType

from pyrula_runtime.engine.current import Current
from pyrula_runtime.engine.failure import is_users
from pyrula_runtime.engine.lane import Lane

log = logging.getLogger("pyrula.watchdog")

# how often per `block_warn` the lane is asked
_ASKS_PER_WARNING = 8
# and how often at least, so that its lag is known
_ASK_S = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A lane that makes no progress: for how long (seconds), by whose code (None: no run's), and where."""

    for_s: float
    whose: Current | None
    line: str
    stack: str


class Watchdog:
    """One lane's watchdog. `report` is called on its thread when a block is found; `over` when it has ended."""

    def __init__(
        self,
        lane: Lane,
        block_warn_s: float,
        report: Callable[[Block], None] | None = None,
        over: Callable[[float], None] | None = None,
    ) -> None:
        self._lane = lane
        self._block_warn_s = block_warn_s
        self._report = report or log_block
        self._over = over or log_end
        self._thread = threading.Thread(target=self._watch, name="pyrula-watchdog", daemon=True)
        self._stop = threading.Event()
        self._answered = threading.Event()
        self._asked_s = 0.0  # when an answer is outstanding, since when
        self._lag_s = 0.0
        self._block: Block | None = None
        self._blocked_s = 0.0

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        self._answered.set()
        self._thread.join()

    def take_lag_ms(self) -> float:
        """The longest that the lane took to answer since this was asked last, or takes already. Any thread."""
        lag_s, self._lag_s = self._lag_s, 0.0
        asked_s = self._asked_s
        return 1000 * max(lag_s, time.monotonic() - asked_s if asked_s else 0.0)

    def stuck(self) -> Block | None:
        """What keeps the lane now, if that was reported, and for how long it has by now. Any thread."""
        block = self._block
        return None if block is None else replace(block, for_s=self._blocked_s)

    def _answer(self) -> None:
        """On the lane's thread: the lane turns."""
        self._lane.beat()
        self._lag_s = max(self._lag_s, time.monotonic() - self._asked_s)
        self._asked_s = 0.0
        self._answered.set()

    def _watch(self) -> None:
        rest_s = min(self._block_warn_s / _ASKS_PER_WARNING, _ASK_S)
        while not self._stop.wait(rest_s):
            if self._lane.loop.is_closed():
                return
            self._answered.clear()
            self._asked_s = time.monotonic()
            self._lane.post(self._answer)
            self._await_answer(rest_s)

    def _await_answer(self, rest_s: float) -> None:
        """Wait until the lane answers; report once if that takes longer than `block_warn`."""
        blocked_s, reported = 0.0, False
        while not self._stop.is_set():
            began, cpu = time.monotonic(), time.process_time()
            answered = self._answered.wait(rest_s)
            passed_s = time.monotonic() - began
            late_s = passed_s - rest_s
            was_stopped = late_s > rest_s and time.process_time() - cpu < late_s / 2
            blocked_s += rest_s if was_stopped else passed_s
            if not reported and blocked_s >= self._block_warn_s:
                reported = True
                self._blocked_s, self._block = blocked_s, block_on(self._lane, blocked_s)
                self._report(self._block)
            self._blocked_s = blocked_s
            if answered:
                self._block = None
                if reported:
                    self._over(blocked_s)
                return


def block_on(lane: Lane, for_s: float) -> Block:
    """Whose code is on the lane, and where; from another thread."""
    frame = sys._current_frames().get(lane.thread.ident or 0)
    return Block(for_s=for_s, whose=lane.whose, line=_user_line(frame), stack=_user_stack(frame))


def stack_of(thread: int | None) -> str:
    """The whole stack of a thread, by its Python identity."""
    frame = None if thread is None else sys._current_frames().get(thread)
    return "" if frame is None else "".join(traceback.format_stack(frame))


def _user_stack(frame: FrameType | None) -> str:
    """The stack from the outermost frame of user code inwards; all of it if there is none."""
    frames = [] if frame is None else list(traceback.extract_stack(frame))
    first = next((depth for depth, each in enumerate(frames) if is_users(each.filename)), 0)
    return "".join(traceback.format_list(frames[first:]))


def _user_line(frame: FrameType | None) -> str:
    """`file:line in function: source` of the innermost frame of user code, else of the innermost of all."""
    innermost = frame
    while innermost is not None and not is_users(innermost.f_code.co_filename):
        innermost = innermost.f_back
    innermost = innermost or frame
    if innermost is None:
        return "unknown"
    name, number = innermost.f_code.co_filename, innermost.f_lineno
    source = linecache.getline(name, number).strip()
    return f"{name}:{number} in {innermost.f_code.co_name}: {source}"


def log_block(block: Block) -> None:
    """Tell people, with run, step and source line."""
    whose = block.whose
    if whose is None:
        log.warning(
            "lane blocked for %.1f s by code of no run, at %s\n%s",
            block.for_s,
            block.line,
            block.stack.rstrip(),
            extra=_fields(block),
        )
        return
    what = f"step {whose.step!r}" if whose.step else "the workflow's body"
    log.warning(
        "lane blocked for %.1f s by run %s (%s), %s, at %s\n%s",
        block.for_s,
        whose.run_id,
        whose.workflow,
        what,
        block.line,
        block.stack.rstrip(),
        extra=_fields(block),
    )


def log_end(blocked_s: float) -> None:
    """Tell people that the lane goes on."""
    log.warning("lane free again after %.1f s", blocked_s, extra={"event": "lane:free", "for_s": round(blocked_s, 3)})


def _fields(block: Block) -> dict[str, object]:
    fields: dict[str, object] = {"event": "lane:blocked", "line": block.line, "for_s": round(block.for_s, 3)}
    if (whose := block.whose) is not None:
        fields |= {"run_id": whose.run_id, "workflow": whose.workflow, "step": whose.step, "op_id": whose.op_id}
    return fields
