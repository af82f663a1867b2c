"""The schedules' duty: fires what is due, in the moment it is due by the store's clock.

Every host does it. They all see a time come, and one of them writes it (see stores.protocol, `fire`); the others read
on. Between times nothing is asked: the store says when the next is due, and rings when an earlier one was written. A
schedule that waits for a run to end (`buffer_one`) is looked at when runs end, by whoever knows that it waits. The poll
is the net below all this.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.engine.alarm import Alarm
from pyrula_runtime.scheduling.firing import Fired, fire
from pyrula_runtime.scheduling.zones import local_text
from pyrula_runtime.stores.protocol import Listening, ScheduleRecord, Store, Wake
from pyrula_runtime.stores.protocol import Schedules as Found

log = logging.getLogger("pyrula.duties")

# runs may end thousands of times a second; one that waits for such an end looks so often at most
_ENDS_EVERY_S = 0.2
# schedules fired side by side
_PAGE = 50


class Schedules:
    """The round; `nudge` makes it come out of turn, and so does whoever hears `Wake.timer`."""

    def __init__(self, store: Store, nudge: Callable[[], object], mono_ms: Callable[[], int], *, poll_s: float) -> None:
        self._store = store
        self._nudge = nudge
        self._mono_ms = mono_ms
        self._poll_ms = round(poll_s * 1000)
        self._due = Alarm(nudge)
        self._end: asyncio.TimerHandle | None = None
        self._ends: Listening | None = None
        self._buffering: set[str] = set()
        self._unread: set[str] = set()
        self._looked_at_all_ms: int | None = None

    async def act(self) -> None:
        """Fire what is due, and come again when the next is."""
        self._end = None
        await self._fire_buffered()
        while True:
            found = await self._store.schedules(due_only=True)
            if not await self._fire_all(found):
                break
        self._hear_of_ends()
        self._due.set(await self._left_ms(found))

    def stop(self) -> None:
        """Come no more by itself."""
        self._due.set(None)
        if self._end is not None:
            self._end.cancel()
        if self._ends is not None:
            self._ends.close()
            self._ends = None

    async def _fire_buffered(self) -> None:
        """One that waits for an end is not due, so all are asked; at times also for those that others let wait."""
        now_ms = self._mono_ms()
        is_time = self._looked_at_all_ms is None or now_ms - self._looked_at_all_ms >= self._poll_ms
        if not (is_time or self._buffering):
            return
        self._buffering.clear()
        found = await self._store.schedules()
        await self._fire_all(found)
        self._looked_at_all_ms = now_ms

    async def _fire_all(self, found: Found) -> bool:
        """Fire what is due, side by side, so that a store can take it in one commit; whether anything was."""
        were_due = False
        for start in range(0, len(found.records), _PAGE):
            page = found.records[start : start + _PAGE]
            were_due |= any(await asyncio.gather(*(self._fire(record, found.now_ms) for record in page)))
        return were_due

    async def _fire(self, record: ScheduleRecord, now_ms: int) -> bool:
        """Whether there was anything to do."""
        try:
            fired = await fire(self._store, record, now_ms)
        except (UsageError, ValueError, KeyError) as error:
            if record.schedule_id not in self._unread:
                self._unread.add(record.schedule_id)
                log.error("schedule %s cannot be fired here: %s", record.schedule_id, error)
            return False
        self._unread.discard(record.schedule_id)
        if fired.decision.state.buffered_ms is not None:
            self._buffering.add(record.schedule_id)
        else:
            self._buffering.discard(record.schedule_id)
        if fired.written:
            _tell(record, fired)
        return fired.was_due

    def _hear_of_ends(self) -> None:
        if self._buffering and self._ends is None:
            self._ends = self._store.listen(lambda _wake: self._look_soon(), frozenset({Wake.ended}))
            self._look_soon()  # the run may have ended before this
        elif not self._buffering and self._ends is not None:
            self._ends.close()
            self._ends = None

    def _look_soon(self) -> None:
        if self._end is None:
            self._end = asyncio.get_running_loop().call_later(_ENDS_EVERY_S, self._nudge)

    async def _left_ms(self, found: Found) -> int | None:
        """In how long the next is due; what is due now and cannot be fired here is for others, or for the poll."""
        next_ms, now_ms = found.next_ms, found.now_ms
        if next_ms is not None and next_ms <= now_ms:
            everything = await self._store.schedules()
            now_ms = everything.now_ms
            times = (each.next_ms for each in everything.records)
            next_ms = min((each for each in times if each is not None and each > now_ms), default=None)
        return None if next_ms is None else next_ms - now_ms


def _tell(record: ScheduleRecord, fired: Fired) -> None:
    declared = fired.decision.state.declared
    assert declared is not None
    for nominal_ms, run_id in zip(fired.decision.begins, fired.run_ids, strict=True):
        when = local_text(nominal_ms, declared.timezone)
        log.info("schedule %s began run %s for %s", record.schedule_id, run_id, when)
    if fired.decision.missed:
        log.warning("schedule %s: times longer ago than its catch_up are passed over", record.schedule_id)
