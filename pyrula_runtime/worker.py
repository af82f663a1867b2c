"""A worker: one process that claims runs and executes their turns, from start-up to the end of its drain.

It composes the engine's parts and owns their order. Start: store, black box, then burial of this host's dead (before
the first claim, so that their runs are claimable at once; a supervisor has a clerk for this and the other duties), then
lanes, watchdog and rounds (see upkeep). Stop, as published
for operators: not ready, claim no more, let turns finish within `shutdown_grace`, suspend the rest and hand them back,
leave threads that hang, free whatever is still held, forget this worker, close the store. Every stage has its own
limit, so the whole has one: `shutdown_grace`, then two `cancel_timeout`s for turns and their threads, then one for the
last calls to the store.

The process ends with 0 after a drain and with 1 if a background loop died: an orchestrator starts it again. It also
ends with 1, without a drain, if nobody stands outside and one run's code has kept the lane past its limit: the run is
charged, all others are handed back, and what hangs goes with the process (see engine.ladder and engine.conviction).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
import threading
from functools import partial

from pyrula_runtime import stacks
from pyrula_runtime.blackbox import BlackBox, Phase
from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.duties.burial import free_all
from pyrula_runtime.engine.commons import Commons
from pyrula_runtime.engine.health import Health
from pyrula_runtime.engine.ladder import Ladder
from pyrula_runtime.engine.lane_setup import LaneSetup
from pyrula_runtime.engine.lanes import Lanes
from pyrula_runtime.engine.payloads import Payloads
from pyrula_runtime.engine.posting import post
from pyrula_runtime.engine.slots import Slots
from pyrula_runtime.engine.watchdog import Block, Watchdog, stack_of
from pyrula_runtime.upkeep import Upkeep, Workplace
from pyrula_runtime.worker_setup import Ears as Ears
from pyrula_runtime.worker_setup import WorkerSetup as WorkerSetup

log = logging.getLogger("pyrula.worker")

# how long a thread keeps the GIL while others want it (seconds). The store's writer may wait for it with the host's
# write lock in hand, beside user code that spins: a fifth of Python's default made that three times shorter
_SWITCH_S = 0.001


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
        self._slots = Slots(setup.capacity)
        self._stop = asyncio.Event()
        self._free_slot = asyncio.Event()
        self._gave_up = ""  # why this worker leaves without a drain

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
    def shards(self) -> int:
        """Where it looks first, of a store's shards; 0 while it shares none."""
        return len(self._upkeep.leased) if self.health.started else 0

    @property
    def turns_done(self) -> int:
        """How many ended here by themselves."""
        return self._lanes.turns_done if self.health.started else 0

    def take_lane_lag_ms(self) -> float:
        """The longest that the lane took to answer since this was asked last, or takes already."""
        return self._watchdog.take_lag_ms() if self.health.started else 0.0

    def lane_stack(self) -> str:
        """What the lanes' threads do now."""
        return self._lanes.stack() if self.health.started else stack_of(threading.get_ident())

    async def run(self) -> int:
        """Serve until a stop is requested or a loop dies, drain, and return the exit code."""
        sys.setswitchinterval(_SWITCH_S)
        await self._store.open()
        box = self._open_box()
        self._store.tell_tenure(box.lock_tenure)
        self._equip(box)
        if self._setup.is_plain:
            await self._upkeep.start_duties()
        self._lanes.start()
        self._watchdog.start()
        self._upkeep.start()
        self._upkeep.climb(self._ladder)
        self.health.started = True
        box.set_phase(Phase.ready)
        self._setup.ears.ready()
        names = ", ".join(sorted(program.name for program in self._setup.programs))
        log.info("worker %s serves %s from %s", self.worker_id, names, self._store.url)
        await self._stop.wait()
        if self._gave_up:
            return await self._give_up_the_rest(box)
        left_nothing = await self._drain(box)
        self._watchdog.stop()
        self._close(box, clean=left_nothing and not self.health.failed_loop)
        return 1 if self.health.failed_loop else 0

    def _open_box(self) -> BlackBox:
        return BlackBox.create(
            self._setup.runtime_dir,
            incarnation=self.incarnation,
            worker_id=self.worker_id,
            store_identity=self._store.identity,
            now_ms=self._setup.clock.wall_ms(),
            role=self._setup.role,
        )

    def _equip(self, box: BlackBox) -> None:
        """Make all parts; nothing moves yet."""
        loop, setup, ears = asyncio.get_running_loop(), self._setup, self._setup.ears
        lane_setup = LaneSetup(
            store=self._store,
            programs={program.name: program for program in setup.programs},
            incarnation=self.incarnation,
            slots=self._slots,
            lock_ttl_ms=self._lock_ttl_ms,
            mono_ms=setup.clock.mono_ms,
            on_free_slot=partial(post, loop, self._slot_came_free),
            on_outage=partial(post, loop, self.health.store_failed),
            on_failed=partial(post, loop, self._lane_failed),
            presence=box,
            payloads=Payloads(setup.codec),
            replay=self._options.replay,
        )
        commons = Commons(self._slots.capacity)
        self._lanes = Lanes(lane_setup, self._options.isolation, commons)
        self._upkeep = Upkeep(
            Workplace(
                setup=setup,
                worker_id=self.worker_id,
                lane_setup=lane_setup,
                commons=commons,
                lanes=self._lanes,
                box=box,
                health=self.health,
                leave=self.request_stop,
            )
        )
        self._watchdog = Watchdog(
            self._lanes.shared,
            self._options.block_warn,
            self._blocked,
            ears.unblocked,
            late=self._upkeep.late,
            last_word=self._last_word(),
        )
        self._ladder = Ladder(
            self._store,
            self._lanes,
            self._upkeep.rungs(),
            stuck=self._watchdog.stuck,
            evacuated=ears.evacuated,
            give_up=self._give_up if setup.is_plain else None,
        )

    def _last_word(self) -> stacks.LastWord | None:
        """Where nobody stands outside, a process whose GIL never comes back has to end itself."""
        file, rungs = self._setup.stack_file, self._upkeep.rungs()
        if file is None or not self._setup.is_plain:
            return None
        return stacks.LastWord(file, max([rungs.limit_s, *rungs.limits_s.values()]))

    def _slot_came_free(self) -> None:
        self._free_slot.set()
        self._upkeep.slot_came_free()

    def _lane_failed(self, error: BaseException) -> None:
        log.critical("the lane died: this worker cannot go on", exc_info=error)
        self.health.loop_failed("lane")
        self.request_stop()
        self._free_slot.set()  # whoever waits for its turns shall look again: they may never end now

    # a stuck lane

    def _blocked(self, block: Block) -> None:
        """On the watchdog's thread."""
        self._ladder.wake()
        self._setup.ears.blocked(block)

    async def _give_up(self, block: Block) -> None:
        """Nobody stands outside, and the limit has passed: charge whose code it is, free the others, leave."""
        self._lanes.condemn()  # the blocking run, too: its lock is renewed no more
        await self._upkeep.court().convict(block, self._setup.clock.wall_ms())
        whose = f"run {block.whose.run_id}" if block.whose else "code of no run"
        self._gave_up = f"{whose} has kept the lane for {block.for_s:.1f} s, at {block.line}"
        log.critical(
            "this worker cannot go on and ends: %s",
            self._gave_up,
            extra={"event": "worker:gave_up", "line": block.line},
        )
        self.request_stop()

    async def _give_up_the_rest(self, box: BlackBox) -> int:
        box.set_phase(Phase.stopping, self._gave_up)
        self.health.draining = True
        self._lanes.drain()
        await self._upkeep.stop(self._options.cancel_timeout / 2)
        left_nothing = await self._take_leave(self._options.cancel_timeout / 2)
        self._close(box, clean=left_nothing)
        return 1

    def _close(self, box: BlackBox, *, clean: bool) -> None:
        """The end; what a burial has no use for goes."""
        box.close(clean=clean)
        if clean and self._setup.stack_file is not None:
            stacks.forget(stacks.stack_path(self._setup.runtime_dir, self.incarnation))

    # the drain

    async def _drain(self, box: BlackBox) -> bool:
        """Stop in bounded time; whether the store knows that nothing is held here any more."""
        options = self._options
        self.health.draining = True
        self._lanes.drain()
        self._upkeep.drain()
        box.set_phase(Phase.draining)
        log.info("draining: %d runs have %g s to finish", self.turns_running, options.shutdown_grace)
        await self._turns_finish(options.shutdown_grace)
        suspended = await self._suspend_rest(options.cancel_timeout)
        if suspended:
            log.warning("%d runs did not finish and were handed back for other workers", suspended)
        box.set_phase(Phase.stopping)
        await asyncio.gather(
            self._upkeep.stop(options.cancel_timeout / 2), self._lanes.wind_up(options.cancel_timeout / 2)
        )
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

        Threads in user code get one `cancel_timeout`, the lanes themselves one more to come round.
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
