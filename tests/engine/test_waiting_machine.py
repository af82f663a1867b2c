"""Random trees of runs that wait, and everything that can come to them, in every order, with crashes in between.

Hypothesis draws workflows of sleeps, signals, children, races, limits and compensations, and interleaves signals,
timers, cancels, claims, steps, reads and single writes; a worker may die between any two writes, also when a write was
done and its answer never came. Then all faults stop. What must hold:
- every run ends, none is paused: what one turn recorded, the next one replays;
- each message is taken at most once, each child begins once and its parent hears of it what its own record says;
- no timer is early; a step whose outcome is on record is never made again;
- nothing lives on below a run that has ended but what was to go on by itself.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from pyrula.workflows import ChildFailed, SignalTimeout, WaitTimeout, WorkflowContext, step
from pyrula_runtime.core import operator
from pyrula_runtime.core.entries import Completed, Entry, Failed, OpKind, Started
from pyrula_runtime.core.ids import run_id
from pyrula_runtime.core.operator import Standing
from pyrula_runtime.core.status import DELIVERY, RunStatus
from pyrula_runtime.core.tree import OnEnd
from pyrula_runtime.engine.parting import parting
from pyrula_runtime.stores.protocol import Amendment, Message, NewRun, RunQuery, RunRecord
from pyrula_runtime.workflows.programs import program_of
from pyrula_runtime.workflows.workflow import Workflow
from tests.engine.ground import Ground

NAMES = ("go", "stop")
Node = list[Any]


def work() -> str:
    """Played by the test."""
    return ""


async def play(ctx: WorkflowContext, node: Node) -> Any:
    """Do what the node says; what it gives is JSON."""
    kind, *rest = node
    match kind:
        case "step":
            return await ctx.step(step(name=rest[0])(work))
        case "sleep":
            return await ctx.sleep(rest[0])
        case "signal":
            try:
                return await ctx.wait_signal(rest[0], timeout=rest[1])
            except SignalTimeout:
                return "late"
        case "child":
            try:
                return await ctx.child("tree of waits", {"node": rest[1]}, on_end=rest[0])
            except ChildFailed as failed:
                return failed.status
        case "limit":
            try:
                async with ctx.timeout(rest[0]):
                    return await play(ctx, rest[1])
            except WaitTimeout:
                return "over"
        case "undo":
            try:
                return await play(ctx, rest[0])
            except asyncio.CancelledError:
                await ctx.step(step(name="undo")(work))
                raise
        case "first":
            return list(await ctx.first(*(play(ctx, each) for each in rest)))
        case "gather":
            return await ctx.gather(*(play(ctx, each) for each in rest))
    return [await play(ctx, each) for each in rest]


async def tree_of_waits(ctx: WorkflowContext, node: Node) -> Any:
    return await play(ctx, node)


PROGRAM = program_of(Workflow(tree_of_waits, name="tree of waits"))
SECONDS = st.sampled_from([0.1, 1, 5, 60])
LEAVES = st.one_of(
    st.sampled_from(["a", "b"]).map(lambda name: ["step", name]),
    SECONDS.map(lambda seconds: ["sleep", seconds]),
    st.tuples(st.sampled_from(NAMES), st.none() | SECONDS).map(lambda given: ["signal", *given]),
)


def _nest(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    parts = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.tuples(st.sampled_from(["chain", "first", "gather"]), parts).map(lambda given: [given[0], *given[1]]),
        st.tuples(st.sampled_from(list(OnEnd)), inner).map(lambda given: ["child", *given]),
        st.tuples(SECONDS, inner).map(lambda given: ["limit", *given]),
        inner.map(lambda node: ["undo", node]),
    )


NODES = st.recursive(LEAVES, _nest, max_leaves=8)
PICKS = st.integers(0, 7)


class Histories(RuleBasedStateMachine):
    """One ground, and what happens on it."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.ground = Ground(PROGRAM)
        self.do(self.ground.store.open)
        self.made_when_journaled: Counter[str] = Counter()
        self.born = 0

    def do(self, act: Callable[..., Awaitable[Any]], *args: Any, **more: Any) -> Any:
        """Do this on the loop."""

        async def done() -> Any:
            return await act(*args, **more)

        return self.loop.run_until_complete(done())

    def runs(self) -> list[RunRecord]:
        """All runs, the oldest first."""
        return list(reversed(self.do(self.ground.store.find, RunQuery(limit=1000))))

    @rule(node=NODES)
    @precondition(lambda self: self.born < 2)
    def submit(self, node: Node) -> None:
        self.born += 1
        raw = orjson.dumps({"node": node})
        new = NewRun(
            run_id=run_id(self.ground.clock.wall_ms(), bytes([self.born] * 10)),
            workflow=PROGRAM.name,
            version=None,
            input=raw,
            digest="d",
            status=RunStatus.queued,
        )
        self.do(self.ground.store.submit, new)

    @rule(pick=PICKS, name=st.sampled_from(NAMES), message_id=st.sampled_from(["1", "2", "3"]))
    def signal(self, pick: int, name: str, message_id: str) -> None:
        if runs := self.runs():
            self.send(runs[pick % len(runs)].run_id, name, message_id)

    def send(self, run: str, name: str, message_id: str) -> None:
        message = Message(run_id=run, message_id=message_id, name=name, body=orjson.dumps(message_id))
        self.do(self.ground.store.deliver, message, DELIVERY)

    @rule(pick=PICKS)
    def cancel(self, pick: int) -> None:
        if runs := self.runs():
            self.do(self.cancelled, runs[pick % len(runs)])

    async def cancelled(self, run: RunRecord) -> None:
        if run.status.is_terminal:
            return
        standing = Standing(
            run_id=run.run_id, status=run.status, fence=run.fence, cancel_requested=run.cancel_requested
        )
        change = operator.cancel(standing)
        if change is None:
            return
        status, store = change.status, self.ground.store
        effects = await parting(store, run, status) if status is not None and status.is_terminal else ()
        ready = None if status is None else status is RunStatus.queued
        await store.amend(
            Amendment(
                run_id=run.run_id,
                rev=run.rev,
                status=status,
                ready=ready,
                cancel_requested=change.cancel_requested,
                effects=effects,
            )
        )

    @rule(replay_ms=st.sampled_from([0, 100]))
    def claim(self, replay_ms: int) -> None:
        self.ground.replay_ms = replay_ms
        self.do(self.ground.claim)

    @rule(pick=PICKS, is_heard=st.booleans())
    @precondition(lambda self: self.ground.writes)
    def write(self, *, pick: int, is_heard: bool) -> None:
        self.do(self.ground.write, pick % len(self.ground.writes), is_heard=is_heard)

    @rule(pick=PICKS)
    @precondition(lambda self: self.ground.steps)
    def finish_step(self, pick: int) -> None:
        self.do(self.stepped, pick % len(self.ground.steps))

    async def stepped(self, at: int) -> None:
        self.ground.finish_step(at)

    @rule(pick=PICKS)
    @precondition(lambda self: self.ground.reads)
    def read(self, pick: int) -> None:
        self.do(self.ground.read, pick % len(self.ground.reads))

    @rule()
    def renew(self) -> None:
        self.do(self.ground.renew)

    @rule(pick=PICKS)
    @precondition(lambda self: self.ground.turns)
    def crash(self, pick: int) -> None:
        turns = list(self.ground.turns.values())
        self.note_what_is_on_record()
        self.do(self.ground.lose, turns[pick % len(turns)])

    @rule(ms=st.sampled_from([1, 100, 1_000, 10_000]))
    def pass_time(self, ms: int) -> None:
        self.do(self.ground.pass_time, ms)

    def note_what_is_on_record(self) -> None:
        """How often each step was made whose outcome is on record: it must not be made again."""
        for run in self.runs():
            for entry in self.do(self.ground.journal, run):
                if isinstance(entry, Completed) and entry.op.kind is OpKind.step:
                    key = f"{run.run_id}:{entry.op.op_id}"
                    self.made_when_journaled.setdefault(key, self.ground.made[key])

    # all faults stop

    def teardown(self) -> None:
        try:
            self.come_to_rest()
            self.judge()
        finally:
            self.loop.close()

    def come_to_rest(self) -> None:
        for round_ in range(400):
            self.do(self.all_goes_on)
            self.note_what_is_on_record()
            live = [run for run in self.runs() if not run.status.is_terminal]
            if not live:
                break
            for run in live:
                for name in NAMES:
                    self.send(run.run_id, name, f"{name} {round_}")

    async def all_goes_on(self) -> None:
        ground = self.ground
        while await ground.claim():
            pass
        while ground.writes or ground.steps or ground.reads:
            while ground.reads:
                await ground.read(0)
            while ground.steps:
                ground.finish_step(0)
            while ground.writes:
                await ground.write(0)
        await ground.renew()
        await ground.pass_time(10_000)

    def judge(self) -> None:
        ground, runs = self.ground, {run.run_id: run for run in self.runs()}
        assert ground.faults == []
        assert ground.store.audit() == []
        assert {run.status for run in runs.values()} <= {RunStatus.completed, RunStatus.cancelled}
        assert {key: ground.made[key] for key in self.made_when_journaled} == dict(self.made_when_journaled)
        for run in runs.values():
            journal = self.do(ground.journal, run)
            taken = [each.message for each in journal if isinstance(each, Completed | Failed) and each.message]
            assert len(taken) == len(set(taken))
            started = {each.op.op_id: each for each in journal if isinstance(each, Started)}
            assert len(started) == sum(isinstance(each, Started) for each in journal)
            for each in started.values():
                assert runs[each.child_id].parent is not None
            self.judge_outcomes(journal, {op_id: runs[each.child_id] for op_id, each in started.items()})

    def judge_outcomes(self, journal: list[Entry], children: dict[str, RunRecord]) -> None:
        for entry in journal:
            if isinstance(entry, Completed) and entry.op.kind is OpKind.child:
                child = children[entry.op.op_id]
                assert (child.status, orjson.loads(child.result or b"")) == (RunStatus.completed, entry.value)
            if isinstance(entry, Failed) and entry.op.kind is OpKind.child:
                assert children[entry.op.op_id].status is RunStatus.cancelled


TestWaiting = Histories.TestCase
TestWaiting.settings = settings(
    max_examples=80, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
