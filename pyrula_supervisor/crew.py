"""The crew: the supervisor's processes with their lines, as the reducer's actions and events speak of them.

Here a `Spawn` becomes a process and a `Spawned`, a corpse an `Exited`, a packet a `Said`. Nothing is decided and
nothing is waited for. What a process may say depends on what it is: a worker that speaks as a clerk is not heard.

An asked fork shows in three ways, in any order: its template names the pid, it says `Hello` itself, or it is dead
already. Whichever comes first makes it ours; then, and not before, the reducer hears of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pyrula_runtime import kernel
from pyrula_runtime.wire import (
    Blocked,
    Buried,
    CannotStart,
    Evacuated,
    Fork,
    Forked,
    Hello,
    Judged,
    Message,
    Queue,
    Ready,
    Report,
    Role,
    Stack,
    Start,
    Unblocked,
)
from pyrula_supervisor.actions import Send, Spawn
from pyrula_supervisor.events import Event, Exited, Said, Spawned, SpawnFailed
from pyrula_supervisor.leftovers import Leftovers, supervisor_mark
from pyrula_supervisor.links import Link
from pyrula_supervisor.processes import Death, Processes

_OF_ALL = (Hello, Ready, CannotStart, Stack)
_SAYS: Mapping[Role, tuple[type[Any], ...]] = {
    Role.clerk: (*_OF_ALL, Buried, Evacuated, Judged, Queue),
    Role.template: (*_OF_ALL, Forked),
}
_WORKER_SAYS = (*_OF_ALL, Report, Blocked, Unblocked, Evacuated)
# packets of a dead process that are read before its end is told: more than its kernel buffer holds
_LAST_WORDS = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Calling:
    """What all processes of a supervisor are started with."""

    name: str
    worker_id: str
    workflows: tuple[str, ...]
    store_url: str
    runtime_dir: Path
    environ: Mapping[str, str]
    options: Mapping[str, Any] = field(default_factory=dict)  # of the workers, by key
    log_format: str = "text"
    log_level: str = "INFO"
    warmup: str = ""
    after_fork: str = ""

    def start(self, spawn: Spawn) -> Start:
        """The first message to a process."""
        return Start(
            role=spawn.role,
            incarnation=spawn.incarnation,
            slot=spawn.slot,
            generation=spawn.generation,
            supervisor_pid=os.getpid(),
            supervisor=self.name,
            workflows=self.workflows,
            store_url=self.store_url,
            worker_id=f"{self.worker_id}-{spawn.slot if spawn.slot >= 0 else spawn.role}",
            options=dict(self.options),
            log_format=self.log_format,
            log_level=self.log_level,
            warmup=self.warmup,
            after_fork=self.after_fork,
        )


@dataclass(slots=True, kw_only=True)
class _Member:
    """One process as asked for, from then until its end is told."""

    spawn: Spawn
    link: Link
    told: bool = False  # whether the reducer has heard that it exists
    refused: str = ""  # why it will never exist: its template says so on its line


class Shell(Protocol):
    """What the crew needs of the loop that it lives in."""

    def now_ms(self) -> int:
        """The monotonic clock of the pass."""

    def put(self, event: Event) -> None:
        """Take an event that came of an action, in this pass."""

    def watch(self, link: Link, incarnation: str) -> None:
        """Have `read` called when something has come on this line."""

    def unwatch(self, link: Link) -> None:
        """Nothing more comes on this line."""


class Crew:
    """All processes."""

    def __init__(self, calling: Calling, shell: Shell) -> None:
        self._calling = calling
        self._shell = shell
        self._members: dict[str, _Member] = {}
        self._named: dict[str, int] = {}  # the pids that templates have given, of forks that are not ours yet
        self._processes = Processes(supervisor_mark(os.getpid()), calling.environ)
        self._leftovers = Leftovers()

    # actions

    def spawn(self, action: Spawn) -> None:
        """Make a process, or ask its template for it."""
        member = _Member(spawn=action, link=Link())
        start = self._calling.start(action)
        member.link.send(start)
        template = self._members.get(action.by_template)
        try:
            if not action.by_template:
                pid = self._processes.spawn(action.incarnation, action.role, member.link.far_end.fileno())
            elif template is None or not template.link.send(Fork(start=start), [member.link.far_end.fileno()]):
                raise BrokenPipeError("its template does not listen")
        except OSError as error:
            member.link.close()
            self._shell.put(SpawnFailed(now_ms=self._shell.now_ms(), incarnation=action.incarnation, reason=str(error)))
            return
        member.link.hand_over()
        self._members[action.incarnation] = member
        if action.by_template:
            self._processes.await_fork(action.incarnation, action.role)
        else:
            self._tell_birth(member, pid)
        self._shell.watch(member.link, action.incarnation)

    def send(self, action: Send) -> bool:
        """Send a message; whether there was room for it."""
        member = self._members.get(action.incarnation)
        return member is not None and member.link.send(action.message)

    def kill(self, incarnation: str) -> None:
        """SIGKILL to it and its group."""
        self._processes.kill(incarnation)

    def terminate(self, incarnation: str) -> None:
        """SIGTERM to it alone."""
        self._processes.terminate(incarnation)

    def pid_of(self, incarnation: str) -> int:
        """Its pid; 0 if it is not known."""
        return self._processes.pid_of(incarnation)

    # news

    def read(self, incarnation: str) -> Iterator[Event]:
        """What has come from a process."""
        member = self._members.get(incarnation)
        if member is not None:
            yield from self._heard(member, member.link.receive())
            is_known = self._members.get(incarnation) is member  # not if its first words told of a death that was seen
            if is_known and member.link.is_over:
                self._shell.unwatch(member.link)
                yield from self._hung_up(member)

    def reap(self) -> Iterator[Event]:
        """The ends of those that died, each after its last words; their tools are killed. Also for now and then."""
        for death in self._processes.reap():
            if death.incarnation:
                yield from self._ended(death)
        yield from self._look()

    def _look(self) -> Iterator[Event]:
        """Now and then: adopt what has come to be ours, and kill what the dead left."""
        for incarnation, pid in list(self._named.items()):
            yield from self._adopt(incarnation, pid)
        processes = self._processes
        self._leftovers.look(self._shell.now_ms(), processes.pids, processes.workers(), forking=processes.awaits_forks)

    @property
    def is_sweeping(self) -> bool:
        """Whether what a dead worker left may still come up, or a fork."""
        return self._leftovers.is_sweeping(self._shell.now_ms()) or bool(self._named)

    # the end

    def kill_all(self) -> bool:
        """Kill every process there is, known or not, and reap the dead; whether none is left."""
        self._processes.kill_all()
        self._leftovers.kill_all(self._processes.pids)
        self._processes.reap()
        return not (self._processes.pids or kernel.children_of_this_process())

    def close(self) -> None:
        """Hang up on everybody."""
        for incarnation in list(self._members):
            self._forget(incarnation)

    def _heard(self, member: _Member, messages: Iterable[Message]) -> Iterator[Event]:
        name, role = member.spawn.incarnation, member.spawn.role
        for message in messages:
            if not isinstance(message, _SAYS.get(role, _WORKER_SAYS)):
                member.link.unheard += 1
                continue
            if isinstance(message, Hello):
                yield from self._adopt(name, message.pid)
            elif isinstance(message, Forked):
                yield from self._named_by_template(member, message)
            elif isinstance(message, CannotStart) and not member.told:
                member.refused = message.reason
            yield Said(now_ms=self._shell.now_ms(), incarnation=name, message=message)

    def _named_by_template(self, template: _Member, message: Forked) -> Iterator[Event]:
        fork = self._members.get(message.incarnation)
        if fork is not None and fork.spawn.by_template == template.spawn.incarnation and not fork.told:
            self._named[message.incarnation] = message.pid
            yield from self._adopt(message.incarnation, message.pid)

    def _adopt(self, incarnation: str, pid: int) -> Iterator[Event]:
        member = self._members.get(incarnation)
        if member is None or member.told:
            self._named.pop(incarnation, None)
            return
        try:
            death = self._processes.adopt(incarnation, pid)
        except ProcessLookupError:
            return  # not adopted yet, or a lie; deadlines see to it
        self._named.pop(incarnation, None)
        self._tell_birth(member, pid)
        if death is not None:
            yield from self._ended(death)

    def _tell_birth(self, member: _Member, pid: int) -> None:
        member.told = True
        self._shell.put(Spawned(now_ms=self._shell.now_ms(), incarnation=member.spawn.incarnation, pid=pid))

    def _hung_up(self, member: _Member) -> Iterator[Event]:
        """A living process that hung up has its reasons; a fork that was refused, or whose template died, is none."""
        spawn = member.spawn
        if not member.told and (member.refused or not self._processes.knows(spawn.by_template)):
            self._processes.give_up_fork(spawn.incarnation)
            self._forget(spawn.incarnation)
            reason = member.refused or "its template died"
            yield SpawnFailed(now_ms=self._shell.now_ms(), incarnation=spawn.incarnation, reason=reason)

    def _ended(self, death: Death) -> Iterator[Event]:
        name = death.incarnation
        if (member := self._members.get(name)) is not None:
            yield from self._heard(member, member.link.receive(_LAST_WORDS))
            self._forget(name)
        self._leftovers.worker_died(name, self._shell.now_ms())
        rss = death.max_rss_bytes
        yield Exited(
            now_ms=self._shell.now_ms(), incarnation=name, pid=death.pid, status=death.status, max_rss_bytes=rss
        )
        for fork in [each for each in self._members.values() if each.spawn.by_template == name and each.link.is_over]:
            yield from self._hung_up(fork)

    def _forget(self, incarnation: str) -> None:
        self._named.pop(incarnation, None)
        link = self._members.pop(incarnation).link
        self._shell.unwatch(link)
        link.close()
