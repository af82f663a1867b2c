"""What code says of schedules and events, told to the store by the workers that have the code.

At its start, and every few seconds, a worker compares: a schedule is new, changed or gone (see core.scheduling for who
may say so while old and new code run side by side), and each version of a workflow says which events start it. While
all is as the code has it, these are reads.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence

from pyrula_runtime.core.scheduling import ScheduleState, Witness, declare
from pyrula_runtime.core.why import SILENT_AFTER_MS
from pyrula_runtime.engine.program import Program
from pyrula_runtime.scheduling.records import dump_state, load_state, timing_of
from pyrula_runtime.stores.protocol import ScheduleRecord, Store

log = logging.getLogger("pyrula.duties")

# how often a worker compares (seconds); whoever says what the store says has to be missed at so many looks in a row,
# so that its fellows, who look as often, can speak up first
PERIOD_S = 10.0
_LOOKS = 3


class Declaring:
    """What one worker declares."""

    def __init__(self, store: Store, programs: Sequence[Program], incarnation: str) -> None:
        self._store = store
        self._programs = programs
        self._incarnation = incarnation
        self._has_subscribed = False
        self._missed: Counter[tuple[str, str]] = Counter()  # by schedule and who says it
        self._unread: set[str] = set()

    async def act(self) -> None:
        """Compare, and write what is otherwise."""
        await self._subscribe()
        found = await self._store.schedules()
        kept = {record.schedule_id: record for record in found.records}
        live: frozenset[str] = frozenset()
        for program in self._programs:
            record = kept.get(program.name, ScheduleRecord(schedule_id=program.name, rev=0, record=b"", next_ms=None))
            try:
                state = load_state(record.schedule_id, record.record) if record.rev else None
            except (ValueError, KeyError) as error:
                self._cannot_read(program.name, error)
                continue
            if not self._says(state, program):
                live = live or await self._live()
                witness = Witness(
                    me=self._incarnation,
                    live=live,
                    now_ms=found.now_ms,
                    is_abandoned=state is not None and self._is_abandoned(state, live),
                )
                await self._write(record, declare(state, program.name, program.schedule, witness))

    async def _subscribe(self) -> None:
        """Old code of the same version may have started again and want other events: those of this are wanted, too."""
        for program in self._programs:
            if program.triggers or not self._has_subscribed:
                names = frozenset(trigger.event for trigger in program.triggers)
                await self._store.subscribe(program.name, program.version, names)
        self._has_subscribed = True

    def _says(self, state: ScheduleState | None, program: Program) -> bool:
        """Whether the store has what this worker declares, by this worker."""
        if state is None:
            return program.schedule is None
        return (state.declared, state.by) == (program.schedule, self._incarnation)

    async def _live(self) -> frozenset[str]:
        workers = await self._store.workers()
        return frozenset({each.incarnation for each in workers if each.age_ms < SILENT_AFTER_MS} | {self._incarnation})

    def _is_abandoned(self, state: ScheduleState, live: frozenset[str]) -> bool:
        seen = (state.schedule_id, state.by)
        if state.by in live:
            self._missed.pop(seen, None)
        else:
            self._missed[seen] += 1
        return self._missed[seen] >= _LOOKS

    async def _write(self, record: ScheduleRecord, state: ScheduleState | None) -> None:
        if state is None:
            return
        next_ms = None if state.declared is None else state.next_due_ms(timing_of(state.declared))
        written = ScheduleRecord(
            schedule_id=record.schedule_id, rev=record.rev, record=dump_state(state), next_ms=next_ms
        )
        if await self._store.put_schedule(written):  # else somebody else has, and it is compared again
            log.info("schedule %s is as the code of this worker says", record.schedule_id)

    def _cannot_read(self, name: str, error: Exception) -> None:
        if name not in self._unread:
            self._unread.add(name)
            log.error("schedule %s is left as a newer version of Pyrula wrote it: %s", name, error)
