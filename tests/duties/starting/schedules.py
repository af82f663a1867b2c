"""Schedules for the tests of the duties that begin runs: declared, put into a store, and their runs found again."""

from __future__ import annotations

from pyrula_runtime.core.scheduling import Declaration, ScheduleState
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.duties.schedules import Schedules
from pyrula_runtime.scheduling.records import dump_state, load_state, timing_of
from pyrula_runtime.stores.clock import Clock, ManualClock
from pyrula_runtime.stores.protocol import RunQuery, ScheduleRecord, Store
from pyrula_runtime.workflows.starting import Schedule
from tests.store.samples import COMPLETED, appending, request

POLL_S = 30.0
ALL_VERSIONS = "1"


def declared(schedule: Schedule, workflow: str = "order", version: str | None = None) -> Declaration:
    return schedule.declared(workflow, version, takes_time=True)


def duty(store: Store, clock: ManualClock, nudge: object = None) -> Schedules:
    """The duty of one host."""
    return Schedules(store, nudge if callable(nudge) else lambda: None, clock.mono_ms, poll_s=POLL_S)


async def put(store: Store, clock: Clock, schedule: Schedule, schedule_id: str = "order") -> ScheduleState:
    """A schedule that begins now."""
    state = ScheduleState(
        schedule_id=schedule_id, declared=declared(schedule, schedule_id), by="w-1", after_ms=clock.wall_ms()
    )
    next_ms = state.next_due_ms(timing_of(declared(schedule)))
    assert await store.put_schedule(
        ScheduleRecord(schedule_id=schedule_id, rev=0, record=dump_state(state), next_ms=next_ms)
    )
    return state


async def kept(store: Store, schedule_id: str = "order") -> ScheduleState:
    """A schedule as the store has it."""
    (record,) = [each for each in (await store.schedules()).records if each.schedule_id == schedule_id]
    return load_state(schedule_id, record.record)


async def runs_of(store: Store, schedule_id: str = "order") -> list[str]:
    """The ids of the runs of a schedule, oldest first."""
    query = RunQuery(schedule_id=schedule_id, limit=10_000)
    return [run.run_id for run in reversed(await store.find(query))]


async def statuses_of(store: Store, schedule_id: str = "order") -> list[RunStatus]:
    """The statuses of the runs of a schedule, oldest first."""
    return [run.status for run in reversed(await store.find(RunQuery(schedule_id=schedule_id)))]


async def complete_one(store: Store, workflow: str = "order") -> None:
    """Take the oldest run and let it end."""
    (claim,) = await store.claim(request((workflow, ALL_VERSIONS), limit=1))
    await store.commit(appending(claim.token, 0, ending=COMPLETED))
