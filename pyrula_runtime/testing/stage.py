"""The worker of a simulation: a lane of the engine on the simulation's loop, and another one when it has crashed.

A real worker has rounds on a control thread that claim, renew and wake. Here `look` does these duties, one after
another, when nothing else can happen. The store is one in memory, so its answers are there at once.

A crash takes what a process would have taken: the turns and what they know. Their bodies are unwound as for a lost
lock, and steps under way are cancelled, because the code of a dead process goes on nowhere. Its runs are freed as by a
burial, and the next worker goes on from the journal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyrula_runtime.client.submittable import known
from pyrula_runtime.core.cursor import Asked
from pyrula_runtime.core.entries import Op
from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.duties.burial import free_all
from pyrula_runtime.engine.body import Body
from pyrula_runtime.engine.current import Current, current
from pyrula_runtime.engine.host import Performing
from pyrula_runtime.engine.lane import Lane
from pyrula_runtime.engine.lane_setup import LaneSetup
from pyrula_runtime.engine.lane_thread import LaneThread
from pyrula_runtime.engine.program import Program, StepCall
from pyrula_runtime.engine.slots import Slots
from pyrula_runtime.engine.threaded_body import SyncBody
from pyrula_runtime.engine.turn import Turn
from pyrula_runtime.options import Replay
from pyrula_runtime.stores.memory.store import MemoryStore
from pyrula_runtime.stores.protocol import Claim, Renewed, Wake
from pyrula_runtime.stores.seam import Crossing, Deed, Phase, Seam
from pyrula_runtime.testing.duties import Duties
from pyrula_runtime.testing.fakes import Fakes
from pyrula_runtime.testing.fuse import Fuse, WorkerCrashed
from pyrula_runtime.testing.loop import SkippingLoop
from pyrula_runtime.testing.threads import WatchedCommons
from pyrula_runtime.workflows.programs import program_of
from pyrula_runtime.workflows.registry import AnyWorkflow
from pyrula_runtime.workflows.workflow import Workflow

# as in a real worker; no lock lapses here, for nobody looks for lapsed ones
_LOCK_TTL_MS = 30_000
# turns at once; a test with more runs than that has them one after another
_CAPACITY = 1_000

_PLACES = {Phase.before: "before the store is asked to {}", Phase.sent: "after the store was asked to {}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What is to be different from a real worker."""

    fakes: Fakes
    fuse: Fuse
    workflows: Sequence[AnyWorkflow] = ()  # whose schedules and events are at work
    replay: Replay = "when-resumed"


class StagedLane(Lane):
    """A lane that tells who is at work, and lets steps be replaced and watched."""

    def __init__(
        self,
        setup: LaneSetup,
        commons: WatchedCommons,
        home: LaneThread,
        prepared: Callable[[StepCall], StepCall],
        rests: Callable[[Turn], None],
    ) -> None:
        """`prepared` makes of a step's call the one to perform; `rests` hears of every turn that ends by itself."""
        super().__init__(setup, commons, home=home)
        self._prepared = prepared
        self._rests = rests
        self._bodies_threads = commons.bodies
        self._threaded: list[tuple[Turn, SyncBody]] = []

    def chance(self) -> float:
        """No jitter: a retry comes after the whole of its delay."""
        return 0.0

    def perform(self, turn: Turn, asked: Asked, call: StepCall) -> Performing:
        return super().perform(turn, asked, self._prepared(call))

    def make_body(self, turn: Turn) -> Body:
        body = super().make_body(turn)
        if isinstance(body, SyncBody):
            self._threaded.append((turn, body))
        return body

    def over(self, turn: Turn, claims: Sequence[Claim] | None) -> None:
        self._rests(turn)
        super().over(turn, claims)

    def bodies_at_work(self) -> int:
        """How many threads of plain bodies execute, instead of waiting for an outcome."""
        self._threaded = [each for each in self._threaded if not each[0].is_over]
        return self._bodies_threads.count() - sum(body.is_parked for _, body in self._threaded)


class Stage:
    """One simulation's workers, one at a time. Everything on the loop's thread, if it is not said otherwise."""

    def __init__(self, home: LaneThread, store: MemoryStore, script: Script) -> None:
        """`home` has a SkippingLoop."""
        loop = home.loop
        assert isinstance(loop, SkippingLoop)
        self._programs: dict[str, Program] = {}
        self.crashes = 0
        self._home = home
        self._loop = loop
        self._store = store
        self._script = script
        self._fuse = script.fuse
        self._in_flight: set[Current] = set()
        self._waits_for: dict[str, list[Op]] = {}  # what runs waited for when their last turn ended
        self._learnt = 0  # how many runs were looked at for workflows to serve
        self._news: set[Wake] = set()
        self._duties = Duties(store, loop.clock.mono_ms, [self.serve(each) for each in script.workflows])
        self._equip()
        loop.is_at_work = self._is_at_work

    def open(self) -> None:
        """Hear of what concerns runs that are being worked on."""
        self._store.listen(self._news.add, frozenset({Wake.attention, Wake.ready}))
        self._duties.open()

    def serve(self, workflow: AnyWorkflow) -> Program:
        """Have runs of this workflow executed."""
        given: object = workflow
        if not isinstance(given, Workflow):
            raise UsageError(f"{given!r} is no workflow: decorate it with @workflow")
        program = self._programs[workflow.name] = program_of(workflow)
        return program

    def close(self) -> None:
        """End what is under way without a trace."""
        self._duties.stop()
        self._is_dead = True
        self._bury()

    async def look(self) -> bool:
        """Do a worker's duties at the present time; whether anything came of it."""
        if self._is_dead:
            await self._restart()
            return True
        self._learn()
        if Wake.attention in self._news:
            self._renew()
        elif Wake.ready in self._news:
            self._claim()
        else:
            return await self._duties.look()
        return True

    def at_work(self) -> list[Current]:
        """The steps whose code is being executed, as far as it runs on the loop."""
        return sorted(self._in_flight, key=lambda each: (each.run_id, each.op_id))

    def program(self, workflow: str) -> Program:
        """What runs of this workflow execute; UsageError if this process does not define it."""
        if workflow not in self._programs:
            raise UsageError(f"this process does not define a workflow {workflow!r}: import its module first")
        return self._programs[workflow]

    def waits_for(self, run_id: str) -> list[Op]:
        """The operations for which a waiting run waits."""
        return self._waits_for.get(run_id, [])

    def threads_at_work(self) -> int:
        """How many threads execute code of runs."""
        return self._commons.steps.count() + self._lane.bodies_at_work()

    # a worker's life

    def _learn(self) -> None:
        """Serve what runs have been submitted for by name, or by other runs."""
        runs = self._store.world.runs
        if len(runs) == self._learnt:
            return
        self._learnt = len(runs)
        for name in {run.new.workflow for run in runs.values()} - self._programs.keys():
            if isinstance(defined := known(name), Workflow):
                self.serve(defined)

    def _rest(self, turn: Turn) -> None:
        self._waits_for[turn.run_id] = turn.waits_for

    def _equip(self) -> None:
        self._is_dead = False
        self._news.add(Wake.ready)
        self._seam = Seam(self._store, self._fault)
        self._commons = WatchedCommons(_CAPACITY, self._loop)
        self._setup = LaneSetup(
            store=self._seam,
            programs=self._programs,
            incarnation=f"simulated-{self.crashes + 1}",
            slots=Slots(_CAPACITY),
            lock_ttl_ms=_LOCK_TTL_MS,
            mono_ms=self._loop.clock.mono_ms,
            on_free_slot=lambda: self._news.add(Wake.ready),
            on_outage=lambda error: None,
            on_failed=lambda error: None,
            replay=self._script.replay,
        )
        self._lane = StagedLane(self._setup, self._commons, self._home, self._prepared, self._rest)

    def crash(self) -> None:
        """End the worker here and now; any thread."""
        self._is_dead = True
        self._home.urgent(self._bury)

    def _bury(self) -> None:
        for threads in (self._commons.steps, self._commons.bodies):
            threads.wait_for_all()  # their code goes on in this process: the next worker begins when it has ended
        self._lane.condemn()
        self._lane.give_up()
        self._commons.shutdown()

    async def _restart(self) -> None:
        await free_all(self._store, self._setup.incarnation)
        self.crashes += 1
        self._equip()

    # its duties: nobody waits for the answers, for a crash may keep them back

    def _renew(self) -> None:
        self._news.discard(Wake.attention)
        lane = self._lane

        def renewed(answer: asyncio.Future[Renewed]) -> None:
            lane.cancel(tuple(answer.result().cancelled))
            lane.tell(answer.result().inbox)

        self._seam.renew(lane.held(), _LOCK_TTL_MS).add_done_callback(renewed)

    def _claim(self) -> None:
        self._news.discard(Wake.ready)
        lane, slots, free = self._lane, self._setup.slots, self._setup.slots.take_all()

        def claimed(answer: asyncio.Future[tuple[Claim, ...]]) -> None:
            slots.give(free - len(answer.result()))
            lane.accept(answer.result())

        self._seam.claim(self._setup.claim_request(free)).add_done_callback(claimed)

    # who is at work

    def _is_at_work(self) -> bool:
        """Whether something may still happen without time going on: see loop."""
        if self._commons.steps.count() or self._loop.is_executing:
            return True
        if self._lane.bodies_at_work() > 0:
            return True
        return bool(self._in_flight) and (self._loop.has_sockets or not self._in_flight <= self._loop.timed())

    # where a worker may end

    def _fault(self, crossing: Crossing) -> Deed:
        if self._is_dead:
            return Deed.vanish
        place = _PLACES.get(crossing.phase)
        if place is not None and self._fuse.burns(place.format(crossing.verb)):
            self.crash()
            return Deed.vanish
        return Deed.go_on

    def _begin(self, whose: Current) -> None:
        if self._is_dead:
            raise WorkerCrashed
        self._pass("before", whose)

    def _pass(self, when: str, whose: Current) -> None:
        if not self._is_dead and self._fuse.burns(f"{when} attempt {whose.attempt} of step {whose.step!r}"):
            self.crash()
            raise WorkerCrashed

    def _prepared(self, call: StepCall) -> StepCall:
        """The call with what stands in for it, and with a look at the fuse before and after."""
        applied = self._script.fakes.applied(call, _attempt)
        inner = applied.call

        async def on_loop() -> Any:
            mine = _attempt()
            self._begin(mine)
            self._in_flight.add(mine)
            try:
                return await inner()
            finally:
                self._in_flight.discard(mine)
                self._pass("after", mine)

        def in_thread() -> Any:
            mine = _attempt()
            self._begin(mine)
            try:
                return inner()
            finally:
                self._pass("after", mine)

        return replace(applied, call=on_loop if applied.is_async else in_thread)


def _attempt() -> Current:
    mine = current.get()
    assert mine is not None
    return mine
