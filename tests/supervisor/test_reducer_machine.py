"""Random lives: whatever the processes do and people ask, in whatever order the news come, the promises hold.

The promises are read off the state and the actions, not off the rules: no slot is lost, never more than one process too
many, nothing starts after a stop was asked for, every dead worker is buried, every reload ends, every end comes.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pyrula_runtime.core.standstill import Verdict
from pyrula_runtime.wire import Blocked, Queue, Role, Stack
from pyrula_supervisor.actions import Spawn
from pyrula_supervisor.events import DumpAsked, LaneSeen, ReloadAsked, RestartAsked, ScaleAsked, Weighed
from pyrula_supervisor.model import LANED
from pyrula_supervisor.options import Policy
from pyrula_supervisor.starting import FORKS_AT_ONCE
from pyrula_supervisor.tables import ChildState, Phase
from tests.supervisor.fake_processes import SIGKILL, SIGSEGV, SIGTERM, Process, World, running

POLICY = {
    "startup_timeout_ms": 3_000,
    "drain_ms": 4_000,
    "reload_settle_ms": 1_000,
    "max_turns": 50,
    "max_rss_bytes": 1 << 30,
}
# Longer than anything may take: a minute of pace, then every slot of a reload with a drain each.
RECOVERY_MS = 240_000
pick = st.integers(0, 10_000)


class Lives(RuleBasedStateMachine):
    """One supervisor and the worst that its processes can do."""

    world: World
    stopped_at: int | None = None
    most_procs = 0

    @initialize(
        procs=st.integers(1, 4),
        method=st.sampled_from(["auto", "spawn", "template"]),
        calm=st.sampled_from([True, True, False]),
    )
    def begin(self, procs: int, method: Any, *, calm: bool) -> None:
        self.world = World(Policy(procs=procs, start_method=method, **POLICY))  # type: ignore[arg-type]
        if calm:
            self.world.settle()

    def one(self, which: int, **wanted: bool) -> Process | None:
        found = [
            process
            for process in self.world.processes.values()
            if not process.dead and all(getattr(process, name) is value for name, value in wanted.items())
        ]
        return found[which % len(found)] if found else None

    # the processes

    @rule(which=pick)
    def born(self, which: int) -> None:
        process = self.one(which, born=False)
        if process and self.world._can_be_born(process):
            self.world.be_born(process)

    @rule(which=pick)
    def not_born(self, which: int) -> None:
        if process := self.one(which, born=False):
            self.world.fail_to_spawn(process)

    @rule(which=pick)
    def ready(self, which: int) -> None:
        if process := self.one(which, born=True, ready=False):
            self.world.be_ready(process)

    @rule(which=pick, code=st.sampled_from([1, 78]), unsafe=st.booleans())
    def cannot_start(self, which: int, code: int, *, unsafe: bool) -> None:
        process = self.one(which, born=True, ready=False)
        if process and not (code == 78 and not self.world.state.ever_ready and which % 4):
            unsafe = unsafe and process.spawn.role is Role.template
            self.world.refuse(process, reason="broken", exit_code=code, unsafe_template=unsafe)

    @rule(which=pick, status=st.sampled_from([0, 7, SIGSEGV, SIGTERM, SIGKILL]))
    def dies(self, which: int, status: int) -> None:
        if process := self.one(which, born=True):
            self.world.die(process, status)

    @rule(which=pick)
    def leaves(self, which: int) -> None:
        if process := self.one(which, born=True, drains=True):
            self.world.die(process, 0)

    @rule(which=pick)
    def is_reaped(self, which: int) -> None:
        if process := self.one(which, born=True, doomed=True):
            self.world.die(process, SIGKILL)

    @rule(which=pick, done=st.integers(0, 100), draining=st.booleans(), failed=st.sampled_from(["", "", "renewals"]))
    def reports(self, which: int, done: int, failed: str, *, draining: bool) -> None:
        process = self.one(which, ready=True)
        if process and process.spawn.role in LANED:
            self.world.report(process, turns_done=done, draining=draining and which % 8 == 0, loop_failed=failed)

    @rule(which=pick)
    def is_blocked(self, which: int) -> None:
        if process := self.one(which, ready=True):
            facts = {"run_id": "r", "workflow": "w", "step": "s", "for_s": 2.0, "line": "x.py:1", "stack": ""}
            self.world.say(process, Blocked(incarnation=process.name, **facts))  # type: ignore[arg-type]

    @rule(which=pick)
    def goes_on(self, which: int) -> None:
        if process := self.one(which, ready=True):
            self.world.unblock(process)
            self.world.say(process, Stack(incarnation=process.name, text="here"))
            for rss_bytes in (1, 10 << 30)[: 1 + (which % 8 == 0)]:
                self.world.feed(Weighed(now_ms=self.world.now_ms, incarnation=process.name, rss_bytes=rss_bytes))

    @rule(
        which=pick,
        verdict=st.sampled_from(list(Verdict)),
        stuck_ms=st.sampled_from([0, 600, 2_000, 5_000, 30_000, 90_000]),
        run_id=st.sampled_from(["", "r", "q"]),
        lock_ms=st.sampled_from([0, 0, 0, 2_000]),
    )
    def is_seen(self, which: int, verdict: Verdict, stuck_ms: int, run_id: str, lock_ms: int) -> None:
        if process := self.one(which, ready=True):
            facts: dict[str, Any] = {"verdict": verdict, "stuck_ms": stuck_ms, "run_id": run_id, "lock_ms": lock_ms}
            self.world.feed(LaneSeen(now_ms=self.world.now_ms, incarnation=process.name, **facts))

    @rule(which=pick, suspects=st.integers(0, 3))
    def suspects_wait(self, which: int, suspects: int) -> None:
        self.count_suspects(suspects if which % 4 == 0 else 0)

    def count_suspects(self, suspects: int) -> None:
        if clerk := next((each for each in self.world.of(Role.clerk) if each.ready), None):
            counts = {"suspects": suspects}
            message = Queue(incarnation=clerk.name, store_ok=True, store_url="sqlite:///x", counts=counts)
            self.world.say(clerk, message)

    @rule(which=pick, final=st.booleans())
    def buries(self, which: int, *, final: bool) -> None:
        if self.world.told:
            name = self.world.told[which % len(self.world.told)]
            self.world.bury(name, final=final)

    # people and time

    @rule(ms=st.sampled_from([250, 1_000, 5_000, 30_000, 61_000]))
    def time_passes(self, ms: int) -> None:
        self.world.tick(ms)

    @rule()
    def supervisor_sleeps(self) -> None:
        killed = len(self.world.killed)
        self.world.tick(250, late_ms=60_000)
        assert len(self.world.killed) == killed, "nobody is judged by a supervisor that slept"
        self.world.tick(1)

    @rule()
    def all_behave(self) -> None:
        if not self.world.state.stopping:
            self.world.settle()

    @rule()
    def reload(self) -> None:
        self.world.feed(ReloadAsked(now_ms=self.world.now_ms, asker=1))

    @rule(procs=st.integers(0, 5))
    def scale(self, procs: int) -> None:
        self.most_procs = max(self.most_procs, self.world.state.procs)
        self.world.feed(ScaleAsked(now_ms=self.world.now_ms, procs=procs, asker=2))

    @rule(slot=st.integers(0, 4))
    def restart(self, slot: int) -> None:
        self.world.feed(RestartAsked(now_ms=self.world.now_ms, slot=slot, asker=3))

    @rule(slot=st.integers(0, 4))
    def dump(self, slot: int) -> None:
        self.world.feed(DumpAsked(now_ms=self.world.now_ms, slot=slot, asker=4))

    @precondition(lambda self: self.world.steps > 20)
    @rule(is_signal=st.booleans(), rarely=st.integers(0, 5))
    def stop(self, rarely: int, *, is_signal: bool) -> None:
        if rarely == 0:
            self.stopped_at = self.stopped_at or self.world.steps
            self.world.forget()
            self.world.stop(is_signal=is_signal)

    # the promises

    @invariant()
    def nothing_starts_after_a_stop(self) -> None:
        if self.stopped_at:
            assert self.world.done(Spawn) == []

    @invariant()
    def no_slot_is_lost(self) -> None:
        state = self.world.state
        if state.stopping:
            return
        for slot in state.slots:
            held = [child for child in state.of_slot(slot.number) if not child.leaving or child.failing]
            held = [child for child in held if child.incarnation != state.canary]
            assert held or self.is_awaited(slot.pace.retry_ms), f"slot {slot.number} is lost"

    def is_awaited(self, retry_ms: int) -> bool:
        state = self.world.state
        now_ms = state.at(self.world.now_ms)
        if retry_ms > now_ms:
            return True
        if not state.generation.forks:
            return False
        templates = list(state.templates(state.generation.number))
        ready = next((template for template in templates if template.serving), None)
        if ready is None:
            return bool(templates) or state.template_pace.retry_ms > now_ms
        # a template takes a few orders at a time, and each order that is done lets the next one go
        orders = [
            each
            for each in state.forks_of(ready.incarnation)
            if each.state is ChildState.asked  # cells, too
        ]
        return len(orders) == FORKS_AT_ONCE

    @invariant()
    def one_process_too_many_at_most(self) -> None:
        state = self.world.state
        staying = [
            [child for child in sharing if not (child.leaving or child.surged)] for sharing in state.by_slot().values()
        ]
        assert sum(max(0, len(each) - 1) for each in staying) <= 1
        stuck = [child for child in state.workers if child.stuck and child.surged and not child.leaving]
        assert state.stopping or len([child for child in stuck if child.sentence is None]) <= state.procs
        assert sum(not child.leaving for child in state.cells) <= 2 * state.procs or state.procs < self.most_procs
        assert sum(child.role is Role.clerk for child in state.children.values()) <= 1

    @invariant()
    def the_clerk_stands_in_only_for_the_living(self) -> None:
        state = self.world.state
        assert state.stand_ins.keys() <= state.children.keys()
        assert all(state.children[name].mute or state.children[name].silent_ms for name in state.stand_ins)

    @invariant()
    def nobody_is_guilty_who_was_not_seen(self) -> None:
        for child in self.world.state.children.values():
            guilty = child.sentence.finding.guilty if child.sentence else ""
            assert guilty in ("", "r", "q")
            assert not guilty or child.sentence.finding.cause == "loop_blocked"  # type: ignore[union-attr]

    @invariant()
    def the_dead_are_buried(self) -> None:
        for name in self.world.graves:
            assert name in self.world.state.burials or name in self.world.buried

    @invariant()
    def the_dead_are_told(self) -> None:
        clerk = self.world.state.clerk
        if clerk and clerk.serving and self.world.quit is None:
            assert set(self.world.state.burials) <= set(self.world.told)

    def teardown(self) -> None:
        if not hasattr(self, "world") or self.world.quit is not None:
            return
        if not self.world.state.stopping:
            self.recovers()
        self.ends()

    def recovers(self) -> None:
        """All behave from now on: then everything gets well, and nothing that was begun stays open."""
        world = self.world
        for _ in range(RECOVERY_MS // 1_000):
            self.all_lanes_turn()
            world.settle()
            world.tick(1_000)
            if not self.unwell():
                break
        assert world.quit is not None or self.unwell() == []

    def all_lanes_turn(self) -> None:
        """Nothing is stuck, of which the shell tells once, and no suspect waits."""
        for child in list(self.world.state.children.values()):
            if child.seen or child.blocked or child.mute or child.silent_ms:
                facts: dict[str, Any] = {"verdict": Verdict.healthy, "stuck_ms": 0}
                self.world.feed(LaneSeen(now_ms=self.world.now_ms, incarnation=child.incarnation, **facts))
        self.count_suspects(0)

    def unwell(self) -> list[str]:
        """What is not as it should be."""
        state = self.world.state
        sound = {
            "nothing is under way": not (state.reload or state.restarts or state.dumps or state.queued_reload),
            "it runs": state.phase is Phase.running,
            "every slot has one": state.ready_workers == state.procs == sum(1 for _ in state.workers),
            "all are of today": {child.generation for child in state.workers} == {state.generation.number},
            "the dead are buried": state.burials == {},
            "nobody is stood in for": state.stand_ins == {},
        }
        return [promise for promise, kept in sound.items() if not kept]

    def ends(self) -> None:
        """Nobody does anything any more: the end comes all the same."""
        world = self.world
        world.stop()
        world.wait(POLICY["drain_ms"] + 5_250)
        assert world.quit is not None


Lives.TestCase.settings = settings(
    max_examples=200, stateful_step_count=80, deadline=None, suppress_health_check=list(HealthCheck)
)
TestLives = Lives.TestCase


@settings(deadline=None)
@given(life_ms=st.integers(0, 2_000), procs=st.integers(1, 3), status=st.sampled_from([0, 1, SIGSEGV, SIGTERM]))
def test_a_crash_loop_starts_a_slot_eight_times_a_minute(life_ms: int, procs: int, status: int) -> None:
    world = running(procs=procs)
    for process in world.of():
        world.die(process, status)
    end_ms = world.now_ms + 60_000
    born_ms: dict[str, int] = {}
    while world.now_ms < end_ms:
        for process in world.of():
            if process.name not in born_ms:
                born_ms[process.name] = world.now_ms
                world.be_born(process)
                world.be_ready(process)
            if world.now_ms - born_ms[process.name] >= life_ms:
                world.die(process, status)
        world.tick(50)
    for slot in range(procs):
        assert sum(action.slot == slot for action in world.done(Spawn)) <= 8
    assert world.goes_on
