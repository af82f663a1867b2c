"""The background work of one worker: which rounds it makes, what each is for, and what makes it come early.

Everything here runs on the control thread. A round that finds the store unavailable is made again soon; one that breaks
ends the worker (see rounds). While nothing happens, nothing is looked at but locks, the box, and, seldom, the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pyrula_runtime.blackbox import BlackBox
from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.core.locks import block_limit_s, renew_every_s
from pyrula_runtime.duties import purge, retention
from pyrula_runtime.duties.blaming import Blamed, budget_of
from pyrula_runtime.duties.burial import Burial
from pyrula_runtime.duties.declaring import PERIOD_S as DECLARING_S
from pyrula_runtime.duties.declaring import Declaring
from pyrula_runtime.duties.fan_out import FanOut
from pyrula_runtime.duties.orphans import OrphanScan
from pyrula_runtime.duties.schedules import Schedules
from pyrula_runtime.duties.timers import Timers
from pyrula_runtime.engine.cell import CellClaiming
from pyrula_runtime.engine.claiming import Claiming
from pyrula_runtime.engine.commons import Commons
from pyrula_runtime.engine.conviction import Court
from pyrula_runtime.engine.handback import Handback
from pyrula_runtime.engine.health import Health
from pyrula_runtime.engine.hung import Hung
from pyrula_runtime.engine.ladder import Ladder, Rungs
from pyrula_runtime.engine.lane_setup import LaneSetup
from pyrula_runtime.engine.lanes import Lanes
from pyrula_runtime.engine.leasing import Leasing
from pyrula_runtime.engine.renewal import Renewal
from pyrula_runtime.engine.retrials import Retrials
from pyrula_runtime.engine.rounds import Round, Rounds
from pyrula_runtime.engine.strays import Strays
from pyrula_runtime.stores.partly import as_far_as_known
from pyrula_runtime.stores.protocol import LeaseRequest, Wake, WorkerRecord
from pyrula_runtime.worker_setup import WorkerSetup

# how often this host's boxes are looked at for dead workers: a directory listing and a lock probe each
_BURIAL_S = 1.0
# how often the black box hears that the control thread turns
_BOX_BEAT_S = 1.0
# how often a worker tells the store that it is there, and after how long others forget it
_BEAT_S = 10.0
_FORGET_MS = 60_000
# a look for suspects that other hosts have found is a call to each shard: at most so often for each
_RETRIAL_SHARD_S = 1.0
# the rest of a round that is made only when somebody asks for it
_NEVER_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """What a worker has, as far as its rounds need it."""

    setup: WorkerSetup
    worker_id: str
    lane_setup: LaneSetup
    commons: Commons
    lanes: Lanes
    box: BlackBox
    health: Health
    leave: Callable[[], None]  # ask for a drain


class Upkeep:
    """All rounds of one worker."""

    def __init__(self, place: Workplace) -> None:
        self._place = place
        self._store = place.setup.store
        self._options = place.setup.options
        self._mono_ms = place.setup.clock.mono_ms
        self._lock_ttl_ms = round(self._options.lock_ttl * 1000)
        self._rounds = Rounds(place.health, random.random, place.leave)
        self._nudges = {name: asyncio.Event() for name in ("claim", "renewal", "strays", "beat")}
        loop = asyncio.get_running_loop()
        self._strays = Strays(
            self._store,
            place.lanes,
            place.setup.incarnation,
            self._mono_ms,
            lambda after_s: loop.call_later(after_s, self._nudges["strays"].set),
        )
        self.handback = Handback(
            self._store,
            place.commons.coming,
            place.box.lane_busy_since_ms,
            self._mono_ms,
            self._strays.seek_now,
        )
        self._retrials: Retrials | None = None
        self._leasing = self._how_to_lease()
        self._schedules: Schedules | None = None
        self._fan_out: FanOut | None = None
        self._claiming = self._how_to_claim()

    def _how_to_lease(self) -> Leasing:
        place = self._place
        request = LeaseRequest(
            incarnation=place.setup.incarnation,
            serves=place.lanes.serves,
            ttl_ms=round(self._options.shard_lease_ttl * 1000),
        )
        return Leasing(
            self._store,
            request,
            place.lanes,
            self.handback,
            place.lane_setup.slots,
            makes_room=lambda: self._retrials is not None and self._retrials.makes_room,
        )

    def _how_to_claim(self) -> Claiming | CellClaiming:
        place, look, doubt = self._place, self._nudges["claim"].set, self._nudges["strays"].set
        if place.setup.role == "cell":
            place.commons.no_successors.set()
            return CellClaiming(place.lane_setup, place.lanes, self.handback, doubt=doubt, leave=place.leave)
        claiming = Claiming(
            place.lane_setup, place.lanes, self.handback, look=look, doubt=doubt, full=self._leasing.full
        )
        if place.setup.is_plain:
            self._retrials = Retrials(place.lane_setup, place.lanes, place.commons, claiming, self._look_anew)
        return claiming

    def _look_anew(self) -> None:
        """The worker begins to claim, or claims nothing for a while."""
        self._nudges["claim"].set()
        self._leasing.nudge.set()

    def court(self) -> Court:
        """Where runs are charged whose code this worker itself has found blocking."""
        return Court(
            store=self._store,
            incarnation=self._place.setup.incarnation,
            worker_id=self._place.worker_id,
            budget=budget_of(self._options),
            is_alone=self._is_alone,
        )

    def _is_alone(self) -> bool:
        """Whether what runs here is one suspect and nothing else."""
        if self._retrials is not None:
            return self._retrials.is_alone
        return self._place.setup.role == "cell"

    def slot_came_free(self) -> None:
        """A turn has ended and nothing took its place."""
        self._claiming.slot_came_free()
        self._leasing.slot_came_free()
        if self._retrials is not None:
            self._retrials.slot_came_free()

    async def start_duties(self) -> None:
        """What a worker without a supervisor does for all of its host; burial before the first claim."""
        setup = self._place.setup
        burial = Burial(self._store, setup.runtime_dir, setup.clock, budget_of(setup.options), self._blamed)
        with contextlib.suppress(StoreUnavailable):  # its round tries again, and tells
            await burial.act()
        self._start("burial", burial.act, _BURIAL_S)
        self._rounds.start(OrphanScan(self._store, self._lock_ttl_ms, self._options.orphan_scan_interval).round)
        self._start("retention", lambda: retention.drop(self._store, self._options), retention.PERIOD_S)
        self._start("purge", lambda: purge.purge(self._store), purge.period_s(self._store))

    def start(self) -> None:
        """Begin to claim, and to keep what is claimed."""
        options, lanes, nudges = self._options, self._place.lanes, self._nudges
        # a wake for work is what makes this round; its period is the net below a lost wake
        claims, renewals = nudges["claim"], nudges["renewal"]
        wakes: dict[Wake, list[Callable[[], None]]] = {
            Wake.ready: [claims.set],
            Wake.attention: [renewals.set],
            Wake.timer: [nudge.set for nudge in self._start_what_begins_runs()],
            Wake.lease: self._start_leases(),
        }

        def ring(wake: Wake) -> None:
            for nudge in wakes[wake]:
                nudge()

        self._listening = self._store.listen(ring, frozenset(wake for wake, woken in wakes.items() if woken))
        self._start("claim", self._claiming.act, options.timer_poll_interval_s, claims)
        every_s = renew_every_s(options.lock_ttl)
        hung = Hung(lanes, self.court(), self.rungs().limit_of_workflow, every_s, self._place.setup.clock)
        self._start("hung turns", hung.act, every_s)
        self._start("renewal", Renewal(self._store, lanes, self._lock_ttl_ms).act, every_s, renewals)
        self._start("strays", self._strays.act, every_s, nudges["strays"])
        self._start("hand-back", self.handback.act, _NEVER_S, self.handback.nudge)
        if self._retrials is not None:
            rest_s = max(options.timer_poll_interval_s, _RETRIAL_SHARD_S * self._store.shards)
            self._start("retrial", self._retrials.act, rest_s, self._retrials.nudge)
        self._place.health.on_doubt = nudges["beat"].set
        self._start("beat", self._beat, min(_BEAT_S, every_s), nudges["beat"])  # see core.locks.outage_grace
        self._start("box beat", self._beat_box, _BOX_BEAT_S)

    def _start_leases(self) -> list[Callable[[], None]]:
        """Share the shards, if there are several; a cell takes what nobody else looks for."""
        leasing, every_s = self._leasing, self._options.shard_lease_interval
        if self._place.setup.role == "cell":
            return []
        self._start("leases", lambda: leasing.act(every_s), every_s, leasing.nudge)
        return [leasing.hear]

    def late(self) -> None:
        """The lane does not answer its watchdog; any thread."""
        self.handback.late()
        self._leasing.late()

    @property
    def leased(self) -> tuple[int, ...]:
        """The shards where this worker looks first."""
        return self._leasing.mine

    def _start_what_begins_runs(self) -> list[asyncio.Event]:
        """Timers, schedules and events; what is to be set when the store rings for one of them."""
        setup, options, woken = self._place.setup, self._options, list[asyncio.Event]()

        def start(name: str, act: Callable[[], Awaitable[None]], period_s: float, nudge: asyncio.Event) -> None:
            self._start(name, act, period_s, nudge)
            woken.append(nudge)

        poll_s = options.schedule_poll_interval_s
        if setup.is_plain:
            timers, schedules = asyncio.Event(), asyncio.Event()
            start("timers", Timers(self._store, timers.set).act, options.timer_poll_interval_s, timers)
            self._schedules = Schedules(self._store, schedules.set, self._mono_ms, poll_s=poll_s)
            start("schedules", self._schedules.act, poll_s, schedules)
        if setup.role != "cell":
            declaring = Declaring(self._store, setup.programs, setup.incarnation)
            self._start("declaring", declaring.act, DECLARING_S)
            self._fan_out = FanOut(self._store, setup.programs, self._place.lane_setup.payloads, self._mono_ms)
            if self._fan_out.is_needed:
                start("events", self._fan_out.act, poll_s, asyncio.Event())
        return woken

    def climb(self, ladder: Ladder) -> None:
        """Make the round of the ladder."""

        async def act() -> None:
            await ladder.act()
            work.period_s = ladder.rest_s

        work = Round(name="ladder", act=act, period_s=ladder.rest_s, nudge=ladder.nudge)
        self._rounds.start(work)

    def rungs(self) -> Rungs:
        """How long code may keep the lane here."""
        lock_ttl, programs = self._options.lock_ttl, self._place.setup.programs
        return Rungs(
            evacuate_s=self._options.evacuate_after_s,
            limit_s=block_limit_s(lock_ttl, None),
            limits_s={each.name: block_limit_s(lock_ttl, each.timeout_s) for each in programs},
        )

    def drain(self) -> None:
        """Claim no more; whoever asks why a run waits is told so."""
        self._nudges["beat"].set()
        self._leasing.nudge.set()
        if self._retrials is not None:
            self._retrials.drain()

    async def stop(self, patience_s: float) -> None:
        """End all rounds."""
        self._listening.close()
        for each in (self._schedules, self._fan_out):
            if each is not None:
                each.stop()
        await self._rounds.stop(patience_s)

    def _blamed(self, _incarnation: str, blamed: Blamed) -> None:
        """A burial has found a suspect, perhaps: it need not wait for the next look."""
        if blamed.suspect and self._retrials is not None:
            self._retrials.nudge.set()

    def _start(
        self, name: str, act: Callable[[], Awaitable[None]], period_s: float, nudge: asyncio.Event | None = None
    ) -> None:
        self._rounds.start(Round(name=name, act=act, period_s=period_s, nudge=nudge or asyncio.Event()))

    async def _beat(self) -> None:
        place = self._place
        record = WorkerRecord(
            incarnation=place.setup.incarnation,
            worker_id=place.worker_id,
            pid=os.getpid(),
            host=socket.gethostname(),
            serves=place.lanes.serves,
            capacity=place.setup.capacity,
            running=len(place.lanes.held()) if place.health.started else 0,
            draining=place.health.draining,
        )
        # first, because this one does not wait for ever: a beat would, behind whoever keeps the store's write lock
        _, fault = await as_far_as_known(self._store.ping())
        # where the store can be written it is to know that somebody is there, though it cannot be everywhere
        await self._store.beat(record, _FORGET_MS)
        if fault is not None:
            raise fault
        # not before: where the one is possible and the other is not, each failure would ask for the next beat at once
        place.health.store_answered()

    async def _beat_box(self) -> None:
        self._place.box.beat_control(self._mono_ms())
