"""The watchdog thread: notices that the lane makes no progress and says whose code blocks it, and on which line.

It asks the lane's loop for an answer a few times per `block_warn`. As long as none comes, some code keeps the loop;
whose it is, the lane knows (see presence and lane_loop), and the number of the question says that it is still the same.
How long that counts is not judged here but by the rule that the supervisor has, too (core.standstill): a sample of the
lane's thread is taken at each round, and time in which this process could not run, or collected garbage, is left out.

From inside, some things look alike. A watchdog that wakes up late may have been stopped with all of its process, or
kept from running by a C call that has the GIL. If the process used the CPU meanwhile it was the latter, and the time
counts; if not, it may have been either, and the time is struck out: the supervisor sees more.

It beats in the black box, so that others see whether the GIL goes round, and notes there how long Python collects
garbage. In a worker without a supervisor it also winds up the timer that ends the process once the GIL never comes
back (see stacks).
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from pyrula_runtime.core.deaths import Cause
from pyrula_runtime.core.frames import Frame, as_text
from pyrula_runtime.core.hints import hint
from pyrula_runtime.core.standstill import NOT_STUCK, Sample, Stuck, from_beginning
from pyrula_runtime.engine.current import Current
from pyrula_runtime.engine.lane import Lane
from pyrula_runtime.engine.presence import Presence, mono_ms
from pyrula_runtime.looking import Onlooker
from pyrula_runtime.users_code import frames_around, is_users

log = logging.getLogger("pyrula.watchdog")

# how often per `block_warn` the lane is asked
_ASKS_PER_WARNING = 8
# and how often at least, so that its lag is known
_ASK_S = 0.25
# how long a lane may take to answer before what waits for it goes back (see handback; seconds)
STUCK_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A lane that makes no progress: for how long (seconds), by whose code (None: no run's), and where."""

    for_s: float
    whose: Current | None
    line: str
    stack: str

    @property
    def hint(self) -> str:
        """Which call it is, and how to write it instead."""
        return hint(Cause.loop_blocked, self.line, self.stack)


class LastWord(Protocol):
    """What ends the process if it is not wound up in time; stacks has it."""

    def wind_up(self, thread: int) -> None:
        """From now on the time runs anew. `thread` is the Python identity of the lane's."""

    def stop(self) -> None:
        """It has no need of it any more."""


class Watchdog:
    """One lane's watchdog. `report` is called on its thread when a block is found; `over` when it has ended."""

    def __init__(
        self,
        lane: Lane,
        block_warn_s: float,
        report: Callable[[Block], None] | None = None,
        over: Callable[[float], None] | None = None,
        *,
        late: Callable[[], None] = lambda: None,
        last_word: LastWord | None = None,
    ) -> None:
        """`late` is called on its thread, once for a question that is found open after a tenth of a second."""
        self._lane = lane
        self._warn_ms = block_warn_s * 1000
        self._rest_s = min(block_warn_s / _ASKS_PER_WARNING, _ASK_S)
        self._report = report or log_block
        self._over = over or log_end
        self._late = late
        self._last_word = last_word
        self._thread = threading.Thread(target=self._watch, name="pyrula-watchdog", daemon=True)
        self._stop = threading.Event()
        self._asked_s = 0.0  # when an answer is outstanding, since when
        self._question = 0
        self._late_for = 0
        self._lag_s = 0.0
        self._block: Block | None = None  # as it was reported
        self._stuck = NOT_STUCK
        self._collections = _Collections(lane.presence)
        self._eye = _Eye(lane, self._collections)

    def start(self) -> None:
        """Start the thread. The first beat is there before it: a turn may take the GIL before the thread ever runs."""
        presence = self._lane.presence
        self._collections.note()
        presence.beat_watch(mono_ms())
        self._thread.start()
        presence.watch_thread(self._thread.native_id or 0)

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        self._thread.join()
        self._collections.note_no_more()
        if self._last_word is not None:
            self._last_word.stop()

    def take_lag_ms(self) -> float:
        """The longest that the lane took to answer since this was asked last, or takes already. Any thread."""
        lag_s, self._lag_s = self._lag_s, 0.0
        asked_s = self._asked_s
        return 1000 * max(lag_s, time.monotonic() - asked_s if asked_s else 0.0)

    def stuck(self) -> Block | None:
        """What keeps the lane now, if that was reported, and for how long it has by now. Any thread."""
        block, stuck = self._block, self._stuck
        return None if block is None else replace(block, for_s=stuck.for_ms / 1000)

    def _answer(self) -> None:
        """On the lane's thread: the lane turns."""
        self._lane.beat()
        self._lag_s = max(self._lag_s, time.monotonic() - self._asked_s)
        self._asked_s = 0.0

    def _watch(self) -> None:
        presence, rest_s = self._lane.presence, self._rest_s
        before = self._look(0.0)
        while not self._lane.is_over:
            self._ask()
            began_s = time.monotonic()
            if self._stop.wait(rest_s):
                return
            presence.beat_watch(mono_ms())
            self._say_if_late(self._question if self._asked_s else 0)
            late_s = time.monotonic() - began_s - rest_s
            after = self._look(late_s if late_s > rest_s else 0.0)
            self._judge(self._stuck.then(from_beginning(before, after), after))
            before = after

    def _look(self, late_s: float) -> Sample:
        asked_s = self._asked_s
        return self._eye.look(self._question if asked_s else 0, round(asked_s * 1000), late_s=late_s)

    def _ask(self) -> None:
        if self._last_word is not None:
            self._last_word.wind_up(self._lane.thread.ident or 0)
        if not self._asked_s:
            self._question += 1
            self._asked_s = time.monotonic()
            self._lane.post(self._answer)

    def _say_if_late(self, question: int) -> None:
        if question not in (0, self._late_for) and time.monotonic() - self._asked_s >= STUCK_S:
            self._late_for = question
            self._late()

    def _judge(self, now: Stuck) -> None:
        """Report a block once, when it has lasted for `block_warn`, and its end."""
        former, self._stuck = self._stuck, now
        is_another = (now.run_id, now.entries) != (former.run_id, former.entries)
        if self._block is not None and is_another:
            self._block = None
            self._over(former.for_ms / 1000)
        if self._block is None and now.for_ms >= self._warn_ms:
            self._block = block_on(self._lane, now.for_ms / 1000)
            self._report(self._block)


class _Eye:
    """What the watchdog sees of its lane at one moment."""

    def __init__(self, lane: Lane, collections: _Collections) -> None:
        self._lane = lane
        self._collections = collections
        self._onlooker = Onlooker(os.getpid())
        self._cpu_s = time.process_time()

    def look(self, question: int, asked_ms: int, *, late_s: float) -> Sample:
        """A sample. `question` is what the lane has not answered yet, 0 if it has.

        If it has not, that may be one piece of code or many in a row: the box tells when the one began that runs now.
        """
        lane, collections = self._lane, self._collections
        cpu_s, self._cpu_s = self._cpu_s, time.process_time()
        whose, since_ms = (lane.whose, lane.presence.lane_busy_since_ms()) if question else (None, 0)
        # late because of a C call with the GIL: somebody here computed meanwhile, and that is no lateness
        was_away = self._cpu_s - cpu_s < late_s / 2
        return Sample(
            at_ms=mono_ms(),
            late_ms=round(late_s * 1000) if was_away else 0,
            run_id=whose.run_id if whose else "",
            entries=(since_ms << 32 | question) if question else 0,
            since_ms=since_ms or asked_ms,
            gc_since_ms=collections.since_ms,
            gc_total_ms=collections.total_ms,
            lane=self._onlooker.thread(lane.thread.native_id or 0),
        )


class _Collections:
    """Python's garbage collections of this process; the youngest generation's are too many and too short to tell."""

    def __init__(self, presence: Presence) -> None:
        self._presence = presence
        self.since_ms = 0
        self.total_ms = 0

    def note(self) -> None:
        """Keep an account from now on."""
        gc.callbacks.append(self._collects)

    def note_no_more(self) -> None:
        """The worker ends."""
        if self._collects in gc.callbacks:  # the app may have removed it
            gc.callbacks.remove(self._collects)

    def _collects(self, phase: str, about: Mapping[str, int]) -> None:
        if about["generation"] == 0:
            return
        now_ms = mono_ms()
        if phase == "start":
            self.since_ms = now_ms
        else:
            self.total_ms += now_ms - self.since_ms if self.since_ms else 0
            self.since_ms = 0
        self._presence.collecting(self.since_ms, self.total_ms)


def block_on(lane: Lane, for_s: float) -> Block:
    """Whose code is on the lane, and where; from another thread."""
    frames = frames_around(sys._current_frames().get(lane.thread.ident or 0))
    return Block(for_s=for_s, whose=lane.whose, line=_user_line(frames), stack=_user_stack(frames))


def stack_of(thread: int | None) -> str:
    """The whole stack of a thread, by its Python identity."""
    return as_text(frames_around(None if thread is None else sys._current_frames().get(thread)))


def _user_stack(frames: Sequence[Frame]) -> str:
    """The stack from the outermost frame of user code inwards; all of it if there is none."""
    first = next((depth for depth, each in enumerate(frames) if is_users(each.file)), 0)
    return as_text(frames[first:])


def _user_line(frames: Sequence[Frame]) -> str:
    """`file:line in function: source` of the innermost frame of user code, else of the innermost of all."""
    innermost = next((each for each in reversed(frames) if is_users(each.file)), frames[-1] if frames else "unknown")
    return str(innermost)


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
        "lane blocked for %.1f s by run %s (%s), %s, at %s; %s\n%s",
        block.for_s,
        whose.run_id,
        whose.workflow,
        what,
        block.line,
        block.hint,
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
