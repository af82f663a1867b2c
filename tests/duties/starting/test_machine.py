"""Random histories of schedules: hosts that look, die in the middle and lose answers, people who pause, runs that end.

Whatever happens in whatever order, each time that was passed is decided once: it has begun one run, or was passed over,
or waits; and no run is told a time that had not come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.core.scheduling import Overlap, ScheduleState, pause, resume, times_between
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.duties.schedules import Schedules
from pyrula_runtime.scheduling.firing import run_id_of
from pyrula_runtime.scheduling.records import dump_state, timing_of
from pyrula_runtime.stores.protocol import RunQuery, RunRecord, ScheduleRecord
from pyrula_runtime.stores.seam import Crossing, Deed, Phase, Seam
from pyrula_runtime.workflows.starting import Schedule
from tests.duties.starting.schedules import complete_one, declared, duty, kept, put
from tests.store.sites import model_site

EVERY_S = 10
HOSTS = st.integers(0, 1)
MOVES_MS = st.sampled_from([1, 999, 4_000, 9_999, 10_000, 25_000, 70_000])


class Histories(RuleBasedStateMachine):
    """One schedule and two hosts; a host that dies is followed by one that knows nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.site = model_site(Path())
        self.clock = self.site.clock
        self.store = self.do(self.site.open())
        self.faults: list[Deed] = []
        self.hosts = [self.made(), self.made()]

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def runs(self, *statuses: RunStatus) -> tuple[RunRecord, ...]:
        async def finding() -> tuple[RunRecord, ...]:
            query = RunQuery(statuses=frozenset(statuses or RunStatus), limit=10_000)
            found: tuple[RunRecord, ...] = await self.store.find(query)
            return found

        return self.loop.run_until_complete(finding())

    def made(self) -> Schedules:
        return duty(Seam(self.store, self.fault), self.clock)

    def fault(self, crossing: Crossing) -> Deed:
        wanted = Phase.before if self.faults[:1] == [Deed.twice] else Phase.sent
        if self.faults and crossing.verb == "fire" and crossing.phase is wanted:
            return self.faults.pop()
        return Deed.go_on

    @initialize(overlap=st.sampled_from(Overlap), jitter_s=st.sampled_from([0.0, 7.0]))
    def declare(self, overlap: Overlap, jitter_s: float) -> None:
        schedule = Schedule(every=EVERY_S, overlap=overlap.value, jitter=jitter_s, catch_up=10**6)
        self.timing = timing_of(declared(schedule))
        self.begin: ScheduleState = self.do(put(self.store, self.clock, schedule))
        self.rested: list[tuple[int, int]] = []

    @rule(by_ms=MOVES_MS)
    def time_passes(self, by_ms: int) -> None:
        self.clock.move(by_ms)

    @rule(host=HOSTS)
    def a_host_looks(self, host: int) -> None:
        self.do(self.hosts[host].act())

    @rule()
    def all_hosts_look(self) -> None:
        async def looking() -> None:
            await asyncio.gather(*(host.act() for host in self.hosts))

        self.do(looking())

    @rule(host=HOSTS, deed=st.sampled_from([Deed.lose, Deed.twice]))
    def a_host_looks_on_a_bad_line(self, host: int, deed: Deed) -> None:
        self.faults = [deed]
        try:
            self.do(self.hosts[host].act())
        except StoreUnavailable:
            self.hosts[host].stop()
            self.hosts[host] = self.made()
        self.faults = []

    @rule()
    def a_run_ends(self) -> None:
        if self.runs(RunStatus.queued):
            self.do(complete_one(self.store))

    @rule()
    def a_person_pauses_or_resumes(self) -> None:
        async def turning() -> None:
            state = await kept(self.store)
            (record,) = (await self.store.schedules()).records
            now_ms = self.clock.wall_ms()
            turned = resume(state, now_ms) if state.paused else pause(state)
            assert turned is not None
            if state.paused:
                self.rested.append((state.after_ms, turned.after_ms))
            elif state.buffered_ms is not None:
                self.rested.append((state.buffered_ms - 1, state.buffered_ms))
            next_ms = turned.next_due_ms(self.timing)
            written = ScheduleRecord(schedule_id="order", rev=record.rev, record=dump_state(turned), next_ms=next_ms)
            assert await self.store.put_schedule(written)

        self.do(turning())

    @invariant()
    def each_time_is_decided_once(self) -> None:
        state: ScheduleState = self.do(kept(self.store))
        runs = self.runs()
        passed = times_between(self.timing, self.begin.after_ms + 1, state.after_ms + 1, 10_000)
        by_id = {run_id_of(self.store, state, nominal_ms): nominal_ms for nominal_ms in passed}
        begun = {by_id[run.run_id] for run in runs}
        assert len(begun) == len(runs)
        assert all(state.due_ms(nominal_ms) <= self.clock.wall_ms() for nominal_ms in begun)
        rested = {each for each in passed for start, end in self.rested if start < each <= end}
        waiting = {state.buffered_ms} - {None}
        assert not begun & (rested | waiting)
        assert len(passed) == len(begun) + len(rested) + len(waiting) + state.passed_over

    def teardown(self) -> None:
        for host in self.hosts:
            host.stop()
        self.do(self.site.close())
        self.loop.close()


def test_whatever_happens_each_time_is_decided_once() -> None:
    run_state_machine_as_test(
        Histories, settings=settings(max_examples=40, stateful_step_count=30, deadline=None, derandomize=True)
    )
