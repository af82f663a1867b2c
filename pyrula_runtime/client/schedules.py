"""Schedules to people: what there is, when it comes, and the acts of an operator. Code declares them, nobody else.

An act reads the schedule, lets the core decide and writes it if it still is as it was read; else once more.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pyrula_runtime.client.door import Door
from pyrula_runtime.client.handle import RunHandle
from pyrula_runtime.core import scheduling
from pyrula_runtime.core.errors import IllegalTransition, UsageError
from pyrula_runtime.core.scheduling import Declaration, Overlap, ScheduleState, times_between
from pyrula_runtime.scheduling.firing import cancelled, others_of, run_id_of
from pyrula_runtime.scheduling.records import dump_state, load_state, new_run, timing_of
from pyrula_runtime.scheduling.zones import zone_named
from pyrula_runtime.stores.protocol import Firing, ScheduleRecord, Submission, SubmitRun

if TYPE_CHECKING:
    from pyrula_runtime.client.workflow_client import WorkflowClient

# times that one backfill or one look ahead may have
MOST_TIMES = 10_000
# runs that a backfill submits side by side
_PAGE = 50
_EPOCH = datetime.fromtimestamp(0, UTC)
# calendars end with the year 9999; a schedule may come but once in 41 years (core.cron), and zones are asked days ahead
_LAST = datetime(9900, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSummary:
    """A schedule as a listing shows it. Times are milliseconds since the epoch; `passed_over` counts skipped times.

    `declared` is False once code has it no more: then nothing comes of it. `waiting_ms` is the time whose run waits for
    that of an earlier one to end.
    """

    name: str
    workflow: str | None
    version: str | None
    cron: str | None
    every_ms: int | None
    timezone: str | None
    overlap: str | None
    catch_up_ms: int | None
    jitter_ms: int | None
    declared: bool
    paused: bool
    next_ms: int | None
    last_ms: int | None
    waiting_ms: int | None
    passed_over: int


class Schedules:
    """The schedules of a client's store: `client.schedules`. A schedule has the name of its workflow."""

    def __init__(self, client: WorkflowClient, door: Door) -> None:
        self._client = client
        self._door = door

    async def list(self) -> tuple[ScheduleSummary, ...]:
        """All schedules, in order of their names."""
        store = await self._door.store()
        found = await store.schedules()
        return tuple(_summary(record) for record in found.records)

    async def pause(self, name: str) -> None:
        """Let it fire no more until it is resumed; runs that have begun go on."""
        await self._change(name, lambda state, _now_ms: scheduling.pause(state))

    async def resume(self, name: str) -> None:
        """Let it fire again, from now on: what came meanwhile is not made up for."""
        await self._change(name, scheduling.resume)

    async def trigger(self, name: str) -> RunHandle[Any]:
        """Begin a run now, beside those of its times. IllegalTransition if its policy keeps it from that."""
        while True:
            record, state, now_ms = await self._read(name)
            declared = _declared(state)
            store = await self._door.store()
            others = await others_of(store, name, declared.overlap)
            if others and declared.overlap in (Overlap.skip, Overlap.buffer_one):
                raise IllegalTransition(
                    f"run {others[0]} of schedule {name!r} has not ended, and with overlap={declared.overlap} one run "
                    f"at a time goes on; wait for it, or cancel it"
                )
            run = new_run(state, declared, now_ms, store.new_run_id(now_ms, os.urandom(10)))
            firing = Firing(
                schedule_id=name,
                rev=record.rev,
                record=dump_state(replace(state, fired_ms=now_ms)),
                next_ms=record.next_ms,
                effects=(
                    *cancelled(others if declared.overlap is Overlap.cancel_other else ()),
                    SubmitRun(run=run),
                ),
            )
            if await store.fire(firing):
                return RunHandle(self._client, declared.workflow, run.run_id)

    async def backfill(self, name: str, start: datetime, end: datetime) -> tuple[RunHandle[Any], ...]:
        """Begin runs of the times from `start` up to `end` (not included) that have none; all of them at once.

        Both are datetimes with a time zone, and over. The runs that were made are returned, in order of their times.
        """
        times = await self.times(name, start, end)
        _, state, now_ms = await self._read(name)
        declared = _declared(state)
        if end > _moment(now_ms) + timedelta(seconds=1):
            raise UsageError("a backfill is for times that are over; those to come are fired by the schedule itself")
        made: list[RunHandle[Any]] = []
        for first in range(0, len(times), _PAGE):
            page = [_ms(time) for time in times[first : first + _PAGE]]
            begun = await asyncio.gather(*(self._backfilled(state, declared, nominal_ms) for nominal_ms in page))
            made += [handle for handle in begun if handle is not None]
        return tuple(made)

    async def _backfilled(self, state: ScheduleState, declared: Declaration, nominal_ms: int) -> RunHandle[Any] | None:
        store = await self._door.store()
        # with another number of shards the run of this time may have been placed elsewhere
        for elsewhere in store.former_run_ids(nominal_ms, state.entropy(nominal_ms)):
            if await store.read(elsewhere) is not None:
                return None
        submitted = await store.submit(new_run(state, declared, nominal_ms, run_id_of(store, state, nominal_ms)))
        if submitted.submission is not Submission.created:
            return None
        return RunHandle(self._client, declared.workflow, submitted.run_id)

    async def times(self, name: str, start: datetime, end: datetime) -> tuple[datetime, ...]:
        """The times from `start` up to `end` (not included), both with a time zone; at most 10,000."""
        for moment in (start, end):
            _check_moment(moment)
        if end < start:
            raise UsageError(f"{start} to {end} ends before it begins; give the earlier moment first")
        _, state, _ = await self._read(name)
        declared = _declared(state)
        found = times_between(timing_of(declared), _ms(start), _ms(end), MOST_TIMES + 1)
        if len(found) > MOST_TIMES:
            raise UsageError(f"schedule {name!r} comes more than {MOST_TIMES:,} times in between; ask for less")
        return tuple(_local(nominal_ms, declared) for nominal_ms in found)

    async def next(self, name: str, count: int = 5) -> tuple[datetime, ...]:
        """The next times, jitter left aside, in the time zone of the schedule; whether or not it is paused.

        UsageError if there are not as many before the year 9900.
        """
        _check_count(count)
        _, state, now_ms = await self._read(name)
        declared, found = _declared(state), list[datetime]()
        nominal_ms = max(state.after_ms, now_ms)
        while len(found) < count:
            nominal_ms = timing_of(declared).next_ms(nominal_ms)
            if nominal_ms > _ms(_LAST):
                raise UsageError(
                    f"schedule {name!r} comes only {len(found):,} times before the year {_LAST.year}, and {count:,} "
                    f"were asked for; ask for less"
                )
            found.append(_local(nominal_ms, declared))
        return tuple(found)

    async def drop(self, name: str) -> None:
        """Forget a schedule; its runs go on. One that the code of a worker still declares comes back."""
        store = await self._door.store()
        if not await store.drop_schedule(name):
            await self._read(name)

    async def _change(self, name: str, change: Callable[[ScheduleState, int], ScheduleState | None]) -> None:
        while True:
            record, state, now_ms = await self._read(name)
            changed = change(state, now_ms)
            if changed is None:
                return
            next_ms = None if changed.declared is None else changed.next_due_ms(timing_of(changed.declared))
            written = ScheduleRecord(schedule_id=name, rev=record.rev, record=dump_state(changed), next_ms=next_ms)
            store = await self._door.store()
            if await store.put_schedule(written):
                return

    async def _read(self, name: str) -> tuple[ScheduleRecord, ScheduleState, int]:
        """The schedule of this name, and the store's time; UsageError if there is none."""
        store = await self._door.store()
        found = await store.schedules()
        for record in found.records:
            if record.schedule_id == name:
                return record, _state(record), found.now_ms
        known = ", ".join(record.schedule_id for record in found.records)
        hint = f"; the schedules are: {known}" if known else ", nor any other; start a worker whose code declares it"
        raise UsageError(f"no schedule {name!r} in this store{hint}")


def _check_moment(moment: object) -> None:
    if not isinstance(moment, datetime) or moment.utcoffset() is None or not _EPOCH <= moment <= _LAST:
        raise UsageError(f"{moment!r} must be a datetime from 1970 to {_LAST.year} that says its time zone")


def _check_count(count: object) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_TIMES:
        raise UsageError(f"count is {count!r}, but must be a whole number from 1 to {MOST_TIMES:,}")


def _declared(state: ScheduleState) -> Declaration:
    if state.declared is None:
        raise UsageError(f"schedule {state.schedule_id!r} is declared by no code any more")
    return state.declared


def _state(record: ScheduleRecord) -> ScheduleState:
    try:
        return load_state(record.schedule_id, record.record)
    except (ValueError, KeyError) as error:
        raise UsageError(
            f"schedule {record.schedule_id!r} was written by a newer version of Pyrula, which this one cannot read: "
            f"use that version here, too"
        ) from error


def _summary(record: ScheduleRecord) -> ScheduleSummary:
    state = _state(record)
    declared = state.declared
    return ScheduleSummary(
        name=record.schedule_id,
        workflow=None if declared is None else declared.workflow,
        version=None if declared is None else declared.version,
        cron=None if declared is None else declared.cron,
        every_ms=None if declared is None else declared.every_ms,
        timezone=None if declared is None else declared.timezone,
        overlap=None if declared is None else declared.overlap.value,
        catch_up_ms=None if declared is None else declared.catch_up_ms,
        jitter_ms=None if declared is None else declared.jitter_ms,
        declared=declared is not None,
        paused=state.paused,
        next_ms=record.next_ms,
        last_ms=state.fired_ms,
        waiting_ms=state.buffered_ms,
        passed_over=state.passed_over,
    )


def _ms(moment: datetime) -> int:
    """Milliseconds since the epoch, rounded up: what comes from a moment on does not come before it."""
    return -((_EPOCH - moment) // timedelta(milliseconds=1))


def _moment(at_ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=at_ms)


def _local(at_ms: int, declared: Declaration) -> datetime:
    return zone_named(declared.timezone).local(at_ms)
