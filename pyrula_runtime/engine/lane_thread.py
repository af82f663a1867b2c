"""The thread and event loop of a lane, apart from what is done on them.

User code may raise what ends a loop (SystemExit, KeyboardInterrupt): the task that raised it has kept it as its
outcome, so the loop goes on. It may also stop the loop: that loses nothing, so it goes on too, and whose code it was is
told; a worker that ended for it would hand the run back, uncharged, to the next worker, and so on for ever. What breaks
a callback of ours is another thing: then a lane that many share cannot go on, and its worker is told.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

from pyrula_runtime import kernel
from pyrula_runtime.engine.current import Current
from pyrula_runtime.engine.lane_loop import lane_loop
from pyrula_runtime.engine.on_lane import OnLane
from pyrula_runtime.engine.posting import post
from pyrula_runtime.engine.presence import Presence

log = logging.getLogger("pyrula.lane")


class LaneThread:
    """One lane's thread with its loop, which runs until `stop`; `on_end` is called on it when the loop is closed."""

    def __init__(
        self,
        presence: Presence,
        on_failed: Callable[[BaseException], None],
        on_end: Callable[[], None] = lambda: None,
        *,
        of_one_turn: bool = False,
        kind: type[asyncio.AbstractEventLoop] | None = None,
    ) -> None:
        """`kind` is that of the loop; None, the kind that this process uses."""
        loop = lane_loop(presence, kind)
        self.loop: asyncio.AbstractEventLoop = loop
        self.on_lane: OnLane = loop.on_lane
        self.urgent: Callable[[Callable[[], object]], None] = loop.urgent  # to be done before any more user code runs
        name = "pyrula-turn" if of_one_turn else "pyrula-lane"
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._presence = presence
        self._on_failed = on_failed
        self._on_end = on_end
        self._stopping = False

    def stop(self) -> None:
        """End the loop soon; any thread. It makes one more turn, in which what was cancelled until then can end."""
        self._stopping = True
        post(self.loop, self.loop.call_soon, self.loop.stop)

    @kernel.signal_stack()
    def _run(self) -> None:
        self._presence.lane_thread(threading.get_native_id())
        asyncio.set_event_loop(self.loop)
        self.loop.set_exception_handler(self._on_callback_error)
        try:
            while not self._stopping:
                try:
                    self.loop.run_forever()
                except (SystemExit, KeyboardInterrupt):  # raised by a step, whose task has kept it as its outcome
                    continue
                if not self._stopping:
                    self._tell_of_stop()
        finally:
            self.loop.close()
            if not self._stopping:
                self._on_failed(RuntimeError("the lane's event loop has ended"))
            self._on_end()

    def _tell_of_stop(self) -> None:
        whose = self.on_lane.stopped_by
        log.error(
            "%s stopped the event loop of its lane, which others share; it goes on: a step ends by return or raise",
            "code of no run" if whose is None else f"run {whose.run_id}",
            extra={"event": "lane:stopped_by_user", **_fields(whose)},
        )

    def _on_callback_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        handle = context.get("handle")
        error = context.get("exception")
        # a callback's errors come while it is known whose it is; those that come without one may be any code's
        whose = self.on_lane.whose
        log.error("%s", context.get("message"), exc_info=error, extra=_fields(whose))
        if handle is not None and whose is None and error is not None:
            self._on_failed(error)


def _fields(whose: Current | None) -> dict[str, str]:
    return {} if whose is None else {"run_id": whose.run_id, "workflow": whose.workflow, "step": whose.step}
