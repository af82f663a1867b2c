"""A world for the reducer: processes that are born, get ready, misbehave and die when a test says so, on its clock.

It performs the reducer's actions as the shell would, and judges nothing.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pyrula_runtime.wire import Buried, Bury, CannotStart, Drain, Dump, Ready, Report, Role, Unblocked
from pyrula_supervisor.actions import Action, Answer, Incident, Kill, Log, Notify, Quit, Send, Spawn, Terminate
from pyrula_supervisor.deadlines import TICK_MS
from pyrula_supervisor.events import Event, Exited, ReloadAsked, Said, Spawned, SpawnFailed, StopAsked, Tick
from pyrula_supervisor.model import LANED, Child
from pyrula_supervisor.options import Policy
from pyrula_supervisor.reducer import begin, step

A = TypeVar("A")
SIGSEGV, SIGKILL, SIGTERM = -11, -9, -15


@dataclass(slots=True, kw_only=True)
class Process:
    """What the world knows of a process."""

    spawn: Spawn
    pid: int
    born: bool = False
    ready: bool = False
    drains: bool = False  # it was told to
    doomed: bool = False  # it was killed
    terminated: bool = False
    dead: bool = False

    @property
    def name(self) -> str:
        return self.spawn.incarnation

    @property
    def stays(self) -> bool:
        return not self.drains and not self.doomed

    @property
    def lives(self) -> bool:
        return self.born and not self.dead


@dataclass
class World:
    """The processes of one supervisor, and what it did to them."""

    policy: Policy
    now_ms: int = 1_000_000
    processes: dict[str, Process] = field(default_factory=dict)
    actions: list[Action] = field(default_factory=list)  # since `forget`
    graves: list[str] = field(default_factory=list)  # workers that died
    told: list[str] = field(default_factory=list)  # burials a clerk heard of
    buried: set[str] = field(default_factory=set)  # those it did
    quit: int | None = None
    steps: int = 0

    def __post_init__(self) -> None:
        self.state, actions = begin(self.policy, self.now_ms, self._seed())
        self._perform(actions)

    def _seed(self) -> bytes:
        self.steps += 1
        return hashlib.blake2b(self.steps.to_bytes(8), digest_size=16).digest()

    # in

    def feed(self, event: Event) -> None:
        self.state, actions = step(self.state, event, self._seed())
        self._perform(actions)

    def say(self, process: Process, message: Any) -> None:
        self.feed(Said(now_ms=self.now_ms, incarnation=process.name, message=message))

    def be_born(self, process: Process) -> None:
        process.born = True
        self.feed(Spawned(now_ms=self.now_ms, incarnation=process.name, pid=process.pid))

    def fail_to_spawn(self, process: Process, reason: str = "no memory") -> None:
        process.dead = True
        self.feed(SpawnFailed(now_ms=self.now_ms, incarnation=process.name, reason=reason))

    def be_ready(self, process: Process, note: str = "") -> None:
        process.ready = True
        self.say(process, Ready(incarnation=process.name, note=note))

    def be_ready_with_limits(self, process: Process, limits_ms: dict[str, int]) -> None:
        """As if it had become ready with workflows that may block for long."""
        child = dataclasses.replace(self.child(process), limits_ms=limits_ms)
        self.state = dataclasses.replace(self.state, children={**self.state.children, process.name: child})

    def reload(self) -> None:
        self.feed(ReloadAsked(now_ms=self.now_ms))

    def refuse(self, process: Process, **facts: Any) -> None:
        self.say(process, CannotStart(incarnation=process.name, **facts))

    def report(self, process: Process, **facts: Any) -> None:
        base = {"turns_running": 0, "turns_done": 0, "capacity": 50, "lane_lag_ms": 0.0, "draining": False}
        self.say(process, Report(incarnation=process.name, **{**base, "store_ok": True, **facts}))

    def unblock(self, process: Process) -> None:
        self.say(process, Unblocked(incarnation=process.name, after_s=1.0))

    def die(self, process: Process, status: int = SIGKILL) -> None:
        process.dead = True
        if process.spawn.role in LANED and self.quit is None:
            self.graves.append(process.name)
        self.feed(Exited(now_ms=self.now_ms, incarnation=process.name, pid=process.pid, status=status))

    def bury(self, name: str, *, final: bool = True) -> None:
        if final:
            self.buried.add(name)
        clerk = next(iter(self.of(Role.clerk)), None)
        told_by = clerk.name if clerk else "gone"
        message = Buried(incarnation=name, run_ids=(), final=final)
        self.feed(Said(now_ms=self.now_ms, incarnation=told_by, message=message))

    def stop(self, *, exit_code: int = 143, is_signal: bool = True) -> None:
        self.feed(StopAsked(now_ms=self.now_ms, exit_code=exit_code, is_signal=is_signal))

    def tick(self, ms: int = TICK_MS, late_ms: int = 0) -> None:
        self.now_ms += ms + late_ms
        self.feed(Tick(now_ms=self.now_ms, late_ms=late_ms))

    def wait(self, ms: int) -> None:
        """Time passes, in the steps of a shell that is never late."""
        end_ms = self.now_ms + ms
        while self.now_ms < end_ms:
            self.tick(min(TICK_MS, end_ms - self.now_ms))

    # out

    def _perform(self, actions: Iterable[Action]) -> None:
        for action in actions:
            self.actions.append(action)
            match action:
                case Spawn():
                    process = Process(spawn=action, pid=100 + len(self.processes))
                    self.processes[action.incarnation] = process
                case Kill(incarnation=name) if name in self.processes:
                    self.processes[name].doomed = True
                case Terminate(incarnation=name):
                    self.processes[name].terminated = True
                case Send(incarnation=name, message=Drain()):
                    self.processes[name].drains = True
                case Send(message=Bury(incarnation=name)):
                    self.told.append(name)
                case Quit(exit_code=code):
                    assert self.quit is None, "it leaves once"
                    self.quit = code

    # what there is

    @property
    def goes_on(self) -> bool:
        return self.quit is None

    def forget(self) -> None:
        """Look only at what is done from now on."""
        self.actions.clear()

    def done(self, kind: type[A]) -> list[A]:
        return [action for action in self.actions if isinstance(action, kind)]

    @property
    def spawned(self) -> list[tuple[Role, int]]:
        """Role and slot of all that was started."""
        return [(action.role, action.slot) for action in self.done(Spawn)]

    @property
    def answers(self) -> list[tuple[int, bool, str]]:
        return [(action.asker, action.ok, action.text) for action in self.done(Answer)]

    @property
    def notices(self) -> list[str]:
        """What the service manager was told, but for status lines."""
        return [action.state for action in self.done(Notify) if not action.state.startswith("STATUS=")]

    @property
    def incidents(self) -> list[tuple[str, int]]:
        return [(action.kind, action.slot) for action in self.done(Incident)]

    @property
    def logged(self) -> str:
        return "\n".join(action.text for action in self.done(Log))

    @property
    def killed(self) -> list[str]:
        return [action.incarnation for action in self.done(Kill)]

    @property
    def dumped(self) -> list[str]:
        return [action.incarnation for action in self.done(Send) if isinstance(action.message, Dump)]

    def of(self, role: Role = Role.worker, slot: int | None = None) -> list[Process]:
        """The processes asked for and not dead, oldest first."""
        return [
            process
            for process in self.processes.values()
            if process.spawn.role is role and slot in (None, process.spawn.slot) and not process.dead
        ]

    def child(self, process: Process) -> Child:
        return self.state.children[process.name]

    # people who behave

    def settle(self, rounds: int = 1_000) -> None:
        """Everything that was asked for comes to life and gets ready, what is to go goes, until nothing changes."""
        for _ in range(rounds):
            if not self._settle_once():
                return
        raise AssertionError("it does not come to rest")

    def settle_clerk(self) -> Process:
        """The clerk alone comes to life."""
        (clerk,) = self.of(Role.clerk)
        self.be_born(clerk)
        self.be_ready(clerk)
        return clerk

    def _settle_once(self) -> bool:
        moved = False
        for process in list(self.processes.values()):
            if process.dead or self.quit is not None:
                continue
            moved = True
            if not process.born and self._can_be_born(process):
                self.be_born(process)
            elif process.born and process.doomed:
                self.die(process, SIGKILL)
            elif process.born and process.drains:
                self.die(process, 0)
            elif process.born and not process.ready:
                self.be_ready(process)
            else:
                moved = False
        for name in list(self.state.burials):
            if name in self.told and any(clerk.ready for clerk in self.of(Role.clerk)):
                self.bury(name)
                moved = True
        return moved

    def _can_be_born(self, process: Process) -> bool:
        template = self.processes.get(process.spawn.by_template)
        return template is None or template.lives


def world(**policy: Any) -> World:
    """A supervisor that has just begun; it spawns unless told otherwise."""
    return World(Policy(**{"start_method": "spawn", "procs": 2, **policy}))


def running(**policy: Any) -> World:
    """A supervisor whose processes are all ready."""
    made = world(**policy)
    made.settle()
    made.tick()
    made.forget()
    return made
