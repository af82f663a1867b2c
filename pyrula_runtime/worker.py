"""A worker: one process that claims runs and executes their turns, from start-up to the end of its drain.

It composes the engine's parts and owns their order. Start: store, black box, then burial of this host's dead (before
the first claim, so that their runs are claimable at once; a supervisor has a clerk for this and the other duties), then
lane, watchdog and rounds. Stop, as published
for operators: not ready, claim no more, let turns finish within `shutdown_grace`, suspend the rest and hand them back,
leave threads that hang, free whatever is still held, forget this worker, close the store. Every stage has its own
limit, so the whole has one: `shutdown_grace`, then two `cancel_timeout`s for turns and their threads, then one for the
last calls to the store.

The process ends with 0 after a drain and with 1 if a background loop died: an orchestrator starts it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import secrets
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pyrula_runtime.blackbox import BlackBox, Phase
from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.core.locks import renew_every_s
from pyrula_runtime.duties import orphans, purge
from pyrula_runtime.duties.burial import Burial, free_all
from pyrula_runtime.engine.claiming import Claiming
from pyrula_runtime.engine.health import Health
from pyrula_runtime.engine.lane_setup import LaneSetup
from pyrula_runtime.engine.lanes import Lanes
from pyrula_runtime.engine.posting import post
from pyrula_runtime.engine.program import Program
from pyrula_runtime.engine.renewal import Renewal
from pyrula_runtime.engine.rounds import Round, Rounds
from pyrula_runtime.engine.slots import Slots
from pyrula_runtime.engine.strays import Strays
from pyrula_runtime.engine.watchdog import Block, Watchdog, log_block, log_end, stack_of
from pyrula_runtime.options import WorkerOptions
from pyrula_runtime.stores.clock import Clock, SystemClock
from pyrula_runtime.stores.protocol import Store, Wake, WorkerRecord

log = logging.getLogger("pyrula.worker")

# how often this host's boxes are looked at for dead workers: a directory listing and a lock probe each
_BURIAL_S = 1.0
# how often the black box hears that the control thread turns
_BOX_BEAT_S = 1.0
# how often a worker tells the store that it is there, and after how long others forget it
_BEAT_S = 10.0
# how long a thread keeps the GIL while others want it (seconds). The store's writer may wait for it with the host's
# write lock in hand, beside user code that spins: a fifth of Python's default made that three times shorter
_SWITCH_S = 0.001
_FORGET_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ears:
    """Who hears of a worker's life: `ready` on its loop, the others on the watchdog's thread."""

    ready: Callable[[], None] = lambda: None
    blocked: Callable[[Block], None] = log_block
    unblocked: Callable[[float], None] = log_end


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSetup:
    """What a worker is made of. Under a supervisor the store's duties are the clerk's."""

    programs: Sequence[Program]
    store: Store
    options: WorkerOptions
    runtime_dir: Path
    worker_id: str | None = None
    incarnation: str = field(default_factory=partial(secrets.token_hex, 8))
    duties: bool = True
    ears: Ears = Ears()
    clock: Clock = field(default_factory=SystemClock)


class Worker:
    """One worker. `run` lives on the process's main thread; `request_stop` may be called from there at any time."""

    def __init__(self, setup: WorkerSetup) -> None:
        self.incarnation = setup.incarnation
        self.worker_id = setup.worker_id or f"{socket.gethostname()}-{self.incarnation[:6]}"
        self.health = Health()
        self._setup = setup
        self._store = setup.store
        self._options = setup.options
        self._lock_ttl_ms = round(setup.options.lock_ttl * 1000)
        self._slots = Slots(setup.options.max_concurrent_turns)
        self._stop = asyncio.Event()
        self._free_slot = asyncio.Event()

    def request_stop(self) -> None:
        """Ask for a drain; returns at once."""
        self._stop.set()

    @property
    def capacity(self) -> int:
        """How many turns may run at once."""
        return self._slots.capacity

    @property
    def turns_running(self) -> int:
        """How many run now; free places that a claim under way has reserved do not count."""
        return len(self._lanes.held()) if self.health.started else 0

    @property
    def turns_done(self) -> int:
        """How many ended here by themselves."""
        return self._lanes.turns_done if self.health.started else 0

    def take_lane_lag_ms(self) -> float:
        """The longest that the lane took to answer since this was asked last, or takes already."""
        return self._watchdog.take_lag_ms() if self.health.started else 0.0

    def lane_stack(self) -> str:
        """What the lane's thread does now."""
        return self._lanes.stack() if self.health.started else stack_of(threading.get_ident())

    async def run(self) -> int:
        """Serve until a stop is requested or a loop dies, drain, and return the exit code."""
        loop = asyncio.get_running_loop()
        sys.setswitchinterval(_SWITCH_S)
        await self._store.open()
        box = BlackBox.create(
            self._setup.runtime_dir,
            incarnation=self.incarnation,
            worker_id=self.worker_id,
            store_identity=self._store.identity,
            now_ms=self._setup.clock.wall_ms(),
        )
        self._store.tell_tenure(box.lock_tenure)
        lane_setup = LaneSetup(
            store=self._store,
            programs={program.name: program for program in self._setup.programs},
            incarnation=self.incarnation,
            slots=self._slots,
            lock_ttl_ms=self._lock_ttl_ms,
            now_ms=self._setup.clock.wall_ms,
            on_free_slot=partial(post, loop, self._slot_came_free),
            on_outage=partial(post, loop, self.health.store_failed),
            on_failed=partial(post, loop, self._lane_failed),
            presence=box,
        )
        self._lanes = Lanes(lane_setup, self._options.isolation)
        self._lane = self._lanes.shared
        self._rounds = Rounds(self.health, random.random, self.request_stop)
        ears = self._setup.ears
        self._watchdog = Watchdog(self._lane, self._options.block_warn, ears.blocked, ears.unblocked)
        if self._setup.duties:
            await self._start_duties()
        self._lanes.start()
        self._watchdog.start()
        self._start_rounds(lane_setup, box)
        self.health.started = True
        box.set_phase(Phase.ready)
        ears.ready()
        names = ", ".join(sorted(program.name for program in self._setup.programs))
        log.info("worker %s serves %s from %s", self.worker_id, names, self._store.url)
        await self._stop.wait()
        left_nothing = await self._drain(box)
        self._watchdog.stop()
        box.close(clean=left_nothing and not self.health.failed_loop)
        return 1 if self.health.failed_loop else 0

    # the rounds

    async def _start_duties(self) -> None:
        """What a worker without a supervisor does for all of its host; burial before the first claim."""
        burial = Burial(self._store, self._setup.runtime_dir, self._setup.clock.mono_ms)
        with contextlib.suppress(StoreUnavailable):  # its round tries again, and tells
            await burial.act()
        self._rounds.start(Round(name="burial", act=burial.act, period_s=_BURIAL_S))
        self._rounds.start(Round(name="orphan scan", act=self._scan, period_s=self._options.orphan_scan_interval))
        self._rounds.start(Round(name="purge", act=lambda: purge.purge(self._store), period_s=purge.PERIOD_S))

    def _start_rounds(self, lane_setup: LaneSetup, box: BlackBox) -> None:
        lanes, options = self._lanes, self._options
        renewal = Round(
            name="renewal",
            act=Renewal(self._store, lanes, self._lock_ttl_ms).act,
            period_s=renew_every_s(options.lock_ttl),
        )
        loop, mono_ms = asyncio.get_running_loop(), self._setup.clock.mono_ms
        strays = Strays(
            self._store, lanes, self.incarnation, mono_ms, lambda after_s: loop.call_later(after_s, seek.nudge.set)
        )
        seek = Round(name="strays", act=strays.act, period_s=renew_every_s(options.lock_ttl))
        self._claiming = Claiming(lane_setup, lanes, lambda: claims.nudge.set(), seek.nudge.set)
        # a wake for work is what makes this round; its period is the net below a lost wake
        claims = Round(name="claim", act=self._claiming.act, period_s=options.timer_poll_interval_s)
        wakes = {Wake.ready: claims.nudge, Wake.attention: renewal.nudge}
        self._listening = self._store.listen(lambda wake: wakes[wake].set(), frozenset(wakes))
        self._rounds.start(claims)
        self._rounds.start(renewal)
        self._rounds.start(seek)
        self._beats = Round(name="beat", act=self._beat, period_s=_BEAT_S)
        self.health.on_doubt = self._beats.nudge.set
        self._rounds.start(self._beats)

        async def beat_box() -> None:
            box.beat_control(mono_ms())

        self._rounds.start(Round(name="box beat", act=beat_box, period_s=_BOX_BEAT_S))

    async def _scan(self) -> None:
        await orphans.scan(self._store, self._lock_ttl_ms)

    async def _beat(self) -> None:
        record = WorkerRecord(
            incarnation=self.incarnation,
            worker_id=self.worker_id,
            pid=os.getpid(),
            host=socket.gethostname(),
            serves=self._lanes.serves,
            capacity=self.capacity,
            running=self.turns_running,
            draining=self.health.draining,
        )
        # first, because this one does not wait for ever: a beat would, behind whoever keeps the store's write lock
        await self._store.ping()
        self.health.store_answered()
        await self._store.beat(record, _FORGET_MS)

    def _slot_came_free(self) -> None:
        self._free_slot.set()
        self._claiming.slot_came_free()

    def _lane_failed(self, error: BaseException) -> None:
        log.critical("the lane died: this worker cannot go on", exc_info=error)
        self.health.loop_failed("lane")
        self.request_stop()
        self._free_slot.set()  # whoever waits for its turns shall look again: they may never end now

    # the drain

    async def _drain(self, box: BlackBox) -> bool:
        """Stop in bounded time; whether the store knows that nothing is held here any more."""
        options = self._options
        self.health.draining = True
        self._lanes.drain()
        self._beats.nudge.set()  # so that whoever asks why a run waits is told
        box.set_phase(Phase.draining)
        log.info("draining: %d runs have %g s to finish", self.turns_running, options.shutdown_grace)
        await self._turns_finish(options.shutdown_grace)
        suspended = await self._suspend_rest(options.cancel_timeout)
        if suspended:
            log.warning("%d runs did not finish and were handed back for other workers", suspended)
        self._listening.close()
        box.set_phase(Phase.stopping)
        await self._rounds.stop(options.cancel_timeout / 2)
        self._lanes.stop()
        return await self._take_leave(options.cancel_timeout / 2)

    async def _take_leave(self, patience_s: float) -> bool:
        """Free what is still held and close the store; what fails here is left, with the black box, to a burial."""
        try:
            async with asyncio.timeout(patience_s):
                await self._store.retire(self.incarnation)
                # after that write no claim of ours is on its way any more, so this finds everything
                await free_all(self._store, self.incarnation)
                await self._store.close()
        except (StoreUnavailable, TimeoutError) as error:
            reason = str(error) or f"no answer within {patience_s:g} s"
            log.warning("the store did not take the last word, another worker's burial will see to it: %s", reason)
            return False
        return True

    async def _turns_finish(self, grace_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                while self._lanes.held() and not self._lanes.is_over:
                    self._free_slot.clear()
                    if self._lanes.held():
                        await self._free_slot.wait()

    async def _suspend_rest(self, cancel_timeout_s: float) -> int:
        """Suspend what still runs. A lane that user code blocks cannot; its runs are freed by the caller all the same.

        Threads in user code get one `cancel_timeout`, the lane itself one more to come round.
        """
        held = len(self._lanes.held())
        if not held or self._lanes.is_over:
            return held
        try:
            async with asyncio.timeout(2 * cancel_timeout_s):
                await self._lanes.suspend_all(cancel_timeout_s)
        except TimeoutError:
            log.error("a lane is blocked by user code and was abandoned")
        return held
