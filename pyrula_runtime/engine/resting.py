"""A turn at rest: nothing of it can go on by itself. Whether it ends here, and if not, when it looks again.

What is due soon is waited for here, and so is, for a while, a message: to suspend and to come back would take longer
(core.staying). Nobody is kept waiting by that who wants the turn to end.
"""

from __future__ import annotations

from collections.abc import Callable

from pyrula_runtime.core.staying import Stay
from pyrula_runtime.engine.alarm import Alarm
from pyrula_runtime.engine.blows import Blows
from pyrula_runtime.engine.performances import Performances
from pyrula_runtime.engine.waits import Waits


class Resting:
    """One turn's; `look_again` is called when it is time for something."""

    def __init__(
        self,
        began_ms: int,
        waits: Waits,
        blows: Blows,
        steps: Performances,
        look_again: Callable[[], object],
        *,
        short_ms: int,
    ) -> None:
        """A wait that is over within `short_ms` does not end the turn."""
        self.stay = Stay(began_ms)
        self._short_ms = short_ms
        self._waits = waits
        self._blows = blows
        self._steps = steps
        self._alarm = Alarm(look_again)

    @property
    def due_ms(self) -> int | None:
        """When the run goes on though nothing comes, if it does."""
        dues = (self._waits.due_ms, self._blows.due_ms, self._steps.due_ms)
        return min((ms for ms in dues if ms is not None), default=None)

    def ends(self, now_ms: int, *, is_idle: bool, in_haste: bool) -> bool:
        """Whether the turn is to suspend now; if not, there is a look again in time.

        `is_idle` says whether nothing but time or a message can bring it on, `in_haste` whether somebody waits for its
        end.
        """
        due_ms = self.due_ms
        left_ms = None if due_ms is None else due_ms - now_ms
        if is_idle and (left_ms is None or left_ms > self._short_ms):
            can_hear = self._waits.inbox_seen is not None
            stay_ms = self.stay.left_ms(now_ms) if can_hear and not in_haste else 0
            if stay_ms == 0:
                return True
            left_ms = stay_ms if left_ms is None else min(left_ms, stay_ms)
        self._alarm.set(left_ms)
        return False

    def await_blow(self, now_ms: int) -> None:
        """The body is at work, so nothing can come in; but look again when it is to be struck, or given up."""
        if (due_ms := self._blows.due_ms) is not None:
            self._alarm.set(due_ms - now_ms)

    def stop(self) -> None:
        """The turn is over, or about to be."""
        self._alarm.set(None)
