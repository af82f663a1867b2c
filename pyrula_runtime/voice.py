"""What a supervised worker says to its supervisor: one method for each message, each in its own words.

What it says about a blocked lane comes from the watchdog's own thread, since the control thread may be busy.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from pyrula_runtime.core.deaths import Cause
from pyrula_runtime.core.errors import ConfigurationError
from pyrula_runtime.core.hints import hint
from pyrula_runtime.uplink import Uplink
from pyrula_runtime.wire import (
    Blocked,
    CannotStart,
    Evacuated,
    Hello,
    Ready,
    Report,
    Stack,
    Start,
    Unblocked,
    cut,
)

if TYPE_CHECKING:
    from pyrula_runtime.engine.watchdog import Block
    from pyrula_runtime.worker import Worker

log = logging.getLogger("pyrula.worker")

# as many runs as certainly fit one message
_RUNS = 500


class Voice:
    """One worker's, for life."""

    def __init__(self, start: Start, uplink: Uplink) -> None:
        self._who = start.incarnation
        self._uplink = uplink

    def hello(self) -> None:
        """The process lives."""
        self._uplink.say(Hello(incarnation=self._who, pid=os.getpid()))

    def cannot_start(self, error: ConfigurationError, exit_code: int) -> None:
        """It ends now and would do so again; if nobody hears that, the log does."""
        from pyrula_runtime.workflows import app

        reason, traceback = cut(str(error)), cut(app.story(error))
        message = CannotStart(incarnation=self._who, reason=reason, traceback=traceback, exit_code=exit_code)
        if not self._uplink.say(message):
            log.error("cannot start: %s\n%s", reason, traceback)

    def ready(self, serves: tuple[str, ...], limits_ms: dict[str, int]) -> None:
        """It serves."""
        self._uplink.say(Ready(incarnation=self._who, serves=serves, limits_ms=limits_ms))

    def report(self, worker: Worker, *, draining: bool) -> None:
        """How it is doing."""
        health = worker.health
        report = Report(
            incarnation=self._who,
            turns_running=worker.turns_running,
            turns_done=worker.turns_done,
            capacity=worker.capacity,
            lane_lag_ms=round(worker.take_lane_lag_ms(), 1),
            draining=draining or health.draining,
            store_ok=not health.store_fault,
            store_fault=cut(health.store_fault),
            loop_failed=health.failed_loop,
            shards=worker.shards,
        )
        self._uplink.say(report)

    def stack(self, text: str) -> None:
        """What its lanes do now."""
        self._uplink.say(Stack(incarnation=self._who, text=cut(text)))

    def evacuated(self, run_ids: tuple[str, ...]) -> None:
        """It handed these runs back, since its lane is stuck."""
        for start in range(0, len(run_ids), _RUNS):
            self._uplink.say(Evacuated(incarnation=self._who, worker=self._who, run_ids=run_ids[start : start + _RUNS]))

    # on the watchdog's thread

    def blocked(self, block: Block) -> None:
        """The lane makes no progress."""
        whose = block.whose
        message = Blocked(
            incarnation=self._who,
            run_id="" if whose is None else whose.run_id,
            workflow="" if whose is None else whose.workflow,
            step="" if whose is None else whose.step,
            op_id="" if whose is None else whose.op_id,
            for_s=round(block.for_s, 3),
            line=cut(block.line),
            stack=cut(block.stack),
            hint=cut(hint(Cause.loop_blocked, block.line, block.stack)),
        )
        self._uplink.say(message)

    def unblocked(self, after_s: float) -> None:
        """The lane goes on."""
        self._uplink.say(Unblocked(incarnation=self._who, after_s=round(after_s, 3)))
