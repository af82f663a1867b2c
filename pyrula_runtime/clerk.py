"""The clerk: a supervisor's process for every store duty that needs no user code. `python -m pyrula_runtime.clerk FD`.

**Model.** One asyncio thread that listens to the supervisor and makes rounds over the store. The supervisor names the
dead (`Bury`): whatever such an incarnation holds is freed in the same moment, and once more a second later (see
duties.burial); each look is answered by a `Buried`, after a `Judged` for every run that was blamed. The boxes of dead
workers whom nobody names, such as those of a supervisor that was killed, are found by a round. For workers that live
and cannot speak (`StandIn`) it keeps locks alive and hands runs back (see duties.standing_in). Orphan scan, retention
and the count of the queue are rounds as well.

**Nothing is lost with it.** It keeps no truth: what is held stands in the store, who is to be buried in boxes and in
the supervisor, which tells a new clerk again. So it may be killed at any moment, and it hands nothing over.

**Speed.** A burial is two hops to the store, and nothing else of the clerk may stand in its way: counts go over an
index of what is not over yet, and the pauses between them grow while nothing changes.

**What may go wrong.** The store is away: burials wait and are tried again, the supervisor hears of it in `Queue`. The
supervisor is gone: the kernel kills this process, and where it does not, the end of the line does. Signals are not
how a clerk is ended: a service manager that sends SIGTERM to all processes would end it before the workers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import NoReturn

from setproctitle import setproctitle

from pyrula_runtime import hygiene
from pyrula_runtime.core.errors import ConfigurationError, StoreUnavailable
from pyrula_runtime.core.locks import renew_every_s
from pyrula_runtime.core.pins import Pin
from pyrula_runtime.core.status import TERMINAL, RunStatus
from pyrula_runtime.duties import purge, retention
from pyrula_runtime.duties.blaming import Blamed, budget_of
from pyrula_runtime.duties.burial import Burial, Look
from pyrula_runtime.duties.orphans import OrphanScan
from pyrula_runtime.duties.pins import PinWatch
from pyrula_runtime.duties.schedules import Schedules
from pyrula_runtime.duties.standing_in import StandingIn
from pyrula_runtime.duties.timers import Timers
from pyrula_runtime.duties.undertaker import AFTER_OUTAGE_S, Undertaker
from pyrula_runtime.engine.health import Health
from pyrula_runtime.engine.rounds import Round, Rounds
from pyrula_runtime.leaving import quit_at_once
from pyrula_runtime.options import WorkerOptions
from pyrula_runtime.runtime_dir import runtime_dir
from pyrula_runtime.stores.clock import Clock, SystemClock
from pyrula_runtime.stores.opening import open_store
from pyrula_runtime.stores.partly import as_far_as_known
from pyrula_runtime.stores.protocol import Census, Store, Wake
from pyrula_runtime.uplink import Uplink
from pyrula_runtime.wire import (
    Buried,
    Bury,
    CannotStart,
    Drain,
    Evacuated,
    Hello,
    Judged,
    Message,
    Queue,
    Ready,
    StandIn,
    Start,
    WireError,
    cut,
    pin_text,
)
from pyrula_runtime.workflows.logs import log_without_waiting

log = logging.getLogger("pyrula.clerk")

CLEAN, LOOP_DIED, CONFIGURATION = 0, 1, 78
# how often boxes are looked at for dead workers nobody named: a directory listing and a lock probe each
_BOXES_S = 1.0
# the queue is counted so often while it changes, and so often at last while it does not
_COUNT_S, _COUNT_IDLE_S = 2.0, 5.0
# but where runs are kept in several shards a count is a call to each: then at most so often for each of them
_COUNT_SHARD_S, _COUNT_SHARD_IDLE_S = 0.1, 1.2
# how often the right to write is proved while all is well; after a failure, at every count
_PROOF_MS = 10_000
# so many runs are named in one message; an id has 128 bytes at most
_RUNS = 200
# so many pins that nobody serves are told, those with most runs, and so many characters of each
_PINS, _PIN_TEXT = 20, 300
# how long a drain waits for the dead that were not looked at yet, then for the rest
_LAST_LOOKS_S, _LAST_CALLS_S = 2.0, 2.0
# statuses of runs that are not over, or that somebody should look at
OPEN = frozenset(RunStatus) - TERMINAL | {RunStatus.quarantined}


class Clerk:
    """One clerk. `run` lives on the process's only loop."""

    def __init__(self, start: Start, uplink: Uplink, store: Store, directory: Path, clock: Clock) -> None:
        self._incarnation = start.incarnation
        self._options = WorkerOptions.from_env({}, **start.options)
        self._uplink = uplink
        self._store = store
        self._clock = clock
        self._health = Health()
        self._stop = asyncio.Event()
        self._opened = asyncio.Event()
        self._rounds = Rounds(self._health, random.random, self._stop.set)
        self._burial = Burial(store, directory, clock, budget_of(self._options), self._judged)
        self._undertaker = Undertaker(self._burial, self._health, self._looked, opened=self._opened, stop=self._stop)
        self._lock_ttl_ms = round(self._options.lock_ttl * 1000)
        self._standing_in = StandingIn(store, self._lock_ttl_ms, clock.mono_ms, self._evacuated)
        every_s = renew_every_s(self._options.lock_ttl)
        self._renewal = Round(name="standing in", act=self._standing_in.act, period_s=every_s)
        self._count = Round(name="count", act=self._count_queue, period_s=_COUNT_S)
        nudge = asyncio.Event()
        timers, every_s = Timers(store, nudge.set), self._options.timer_poll_interval_s
        self._timers = Round(name="timers", act=timers.act, period_s=every_s, nudge=nudge)
        nudge, every_s = asyncio.Event(), self._options.schedule_poll_interval_s
        schedules = Schedules(store, nudge.set, clock.mono_ms, poll_s=every_s)
        self._schedules = Round(name="schedules", act=schedules.act, period_s=every_s, nudge=nudge)
        self._counts: Counter[str] = Counter()
        self._pin_watch = PinWatch(store)
        self._pins: Mapping[Pin, int] = {}
        self._proved_ms = -_PROOF_MS

    async def run(self) -> int:
        """Serve until told to stop; the exit code. Raises ConfigurationError for a store that must not be used."""
        asyncio.get_running_loop().add_reader(self._uplink.fileno(), self._hear)
        self._uplink.say(Hello(incarnation=self._incarnation, pid=os.getpid()))
        serving = asyncio.create_task(self._serve())
        stopped = asyncio.create_task(self._stop.wait())
        await asyncio.wait((serving, stopped), return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()  # raises what keeps it from serving
        serving.cancel()
        await self._drain()
        return LOOP_DIED if self._health.failed_loop else CLEAN

    async def _serve(self) -> None:
        await self._open()
        with contextlib.suppress(StoreUnavailable):  # its round tries again, and tells
            await self._burial.act()
        self._say_ready()
        self._health.on_doubt = self._count.nudge.set
        self._rounds.start(Round(name="burial", act=self._burial.act, period_s=_BOXES_S))
        # what it keeps alive is no orphan, though it may have come late to that
        every_s, first = self._options.orphan_scan_interval, self._standing_in.act
        self._rounds.start(OrphanScan(self._store, self._lock_ttl_ms, every_s, first=first).round)
        self._rounds.start(Round(name="retention", act=self._drop, period_s=retention.PERIOD_S))
        self._rounds.start(Round(name="purge", act=self._purge, period_s=purge.period_s(self._store)))
        self._rounds.start(self._timers)
        self._rounds.start(self._schedules)
        self._store.listen(lambda _wake: self._time_was_written(), frozenset({Wake.timer}))
        self._rounds.start(self._renewal)
        self._rounds.start(self._count)
        await self._stop.wait()

    def _time_was_written(self) -> None:
        self._timers.nudge.set()
        self._schedules.nudge.set()

    async def _open(self) -> None:
        """Open the store, however long it is away; the dead can be named meanwhile."""
        while True:
            try:
                await self._store.open()
            except StoreUnavailable as error:
                self._health.store_failed(error)
                self._say_ready(note="it waits for the store")
                self._tell_queue()
                await asyncio.sleep(AFTER_OUTAGE_S)
            else:
                self._opened.set()
                return

    def _say_ready(self, note: str = "") -> None:
        if not self._health.started:
            self._health.started = True
            self._uplink.say(Ready(incarnation=self._incarnation, note=note))

    async def _drain(self) -> None:
        await self._undertaker.finish(_LAST_LOOKS_S)
        await self._rounds.stop(_LAST_CALLS_S / 2)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_CALLS_S / 2):
                await self._store.close()

    # the supervisor

    def _hear(self) -> None:
        try:
            while (heard := self._uplink.hear()) is not None:
                for fd in heard.fds:
                    os.close(fd)
                self._obey(heard.message)
        except EOFError:
            quit_at_once(CLEAN)

    def _obey(self, message: Message) -> None:
        if isinstance(message, Bury):
            self._standing_in.over(message.incarnation)
            self._undertaker.bury(message.incarnation, message.finding)
        elif isinstance(message, StandIn):
            if self._standing_in.hear(message):
                self._renewal.nudge.set()
        elif isinstance(message, Drain):
            self._stop.set()

    # what it has done, told

    def _looked(self, incarnation: str, look: Look) -> None:
        for blamed in look.blamed:
            self._judged(incarnation, blamed)
        self._uplink.say(Buried(incarnation=incarnation, run_ids=look.freed[:_RUNS], final=look.final))

    def _judged(self, incarnation: str, blamed: Blamed) -> None:
        """Tell what a death meant for a run. A new suspect is counted at once, so that it gets its cell."""
        message = Judged(
            incarnation=self._incarnation,
            worker=incarnation,
            run_id=blamed.run_id,
            workflow=blamed.workflow,
            cause=blamed.cause.value,
            step=blamed.step,
            line=cut(blamed.line),
            charged=blamed.charged,
            marked=blamed.marked,
            suspect=blamed.suspect,
            quarantined=blamed.quarantined,
        )
        self._uplink.say(message)
        if blamed.suspect or blamed.quarantined:
            self._count.nudge.set()

    def _evacuated(self, worker: str, run_ids: tuple[str, ...]) -> None:
        for start in range(0, len(run_ids), _RUNS):
            part = run_ids[start : start + _RUNS]
            self._uplink.say(Evacuated(incarnation=self._incarnation, worker=worker, run_ids=part))

    # the rounds

    async def _drop(self) -> None:
        await retention.drop(self._store, self._options)

    async def _purge(self) -> None:
        await purge.purge(self._store)

    async def _count_queue(self) -> None:
        """Count, prove the store if need be, tell; and rest for longer while nothing changes."""
        before = self._counts
        try:
            to_prove = self._health.store_fault or self._clock.mono_ms() - self._proved_ms >= _PROOF_MS
            fault = None
            if to_prove:
                _, fault = await as_far_as_known(self._store.ping())
            census, missing = await as_far_as_known(self._store.census(OPEN))
            # of what can be reached, so that suspects there get their cells; that it is not all is told with it
            self._counts = _totals(census)
            if (fault := fault or missing) is not None:
                raise fault
            if to_prove:
                # not before: a store that can be written and not counted would be asked again and again, without a rest
                self._proved_ms = self._clock.mono_ms()
                self._health.store_answered()
            self._pins = await self._pin_watch.look(census.pins)
        except StoreUnavailable as error:
            self._health.store_failed(error)
            raise
        finally:
            self._tell_queue()
        self._count.period_s = self._rest_s(is_idle=self._counts == before)

    def _rest_s(self, *, is_idle: bool) -> float:
        shards = self._store.shards
        if not is_idle:
            return max(_COUNT_S, _COUNT_SHARD_S * shards)
        return min(2 * self._count.period_s, max(_COUNT_IDLE_S, _COUNT_SHARD_IDLE_S * shards))

    def _tell_queue(self) -> None:
        message = Queue(
            incarnation=self._incarnation,
            store_ok=not self._health.store_fault,
            store_url=self._store.url,
            store_fault=cut(self._health.store_fault),
            counts=dict(self._counts),
            pins={pin_text(*pin)[:_PIN_TEXT]: runs for pin, runs in islice(self._pins.items(), _PINS)},
        )
        self._uplink.say(message)


def _totals(census: Census) -> Counter[str]:
    counts: Counter[str] = Counter(suspects=census.suspects)
    for (_, status), count in census.counts.items():
        counts[status.value] += count
    return counts


def main(fd: int) -> NoReturn:
    """Be the clerk of the supervisor at the other end of this descriptor."""
    uplink = Uplink.from_fd(fd)
    try:
        start = uplink.read_start()
    except (EOFError, TimeoutError, WireError) as error:
        sys.exit(f"pyrula clerk: this command is for supervisors, and none has told what to do: {error}")
    hygiene.clean_spawned(start, os.environ)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    setproctitle(f"pyrula-clerk {start.supervisor}")
    log_without_waiting("json" if start.log_format == "json" else "text", start.log_level)
    try:
        code = _served(start, uplink)
    except ConfigurationError as error:
        uplink.say(CannotStart(incarnation=start.incarnation, reason=cut(str(error)), exit_code=CONFIGURATION))
        code = CONFIGURATION
    quit_at_once(code)  # one of the store's threads may wait for a lock that another process holds


def _served(start: Start, uplink: Uplink) -> int:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    options = WorkerOptions.from_env({}, **start.options)
    store = open_store(start.store_url, shard_count=options.shard_count)
    clerk = Clerk(start, uplink, store, runtime_dir(os.environ), SystemClock())
    return loop.run_until_complete(clerk.run())


if __name__ == "__main__":
    main(int(sys.argv[1]))
