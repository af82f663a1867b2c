"""The parent: one thread, one queue, one thing at a time; it decides by the reducer and is never in doubt or in wait.

Whatever happens (a signal, a packet, a corpse, a command, the passing of time) only says that a pass is due. A pass
reads the clock once, makes events of all that has come, gives each to the reducer and does what it answers, until
nothing is left. No child is ever awaited, no store opened, no user code imported, nothing forked; what a child does not
take is lost, and what it does not do in time is the reducer's to judge. So the parent can neither crash nor hang with
what it watches.

Time is told by ticks: four a second while something may fall due, else one. A tick that comes late says by how much,
and comes first in its pass, so that nobody is blamed for the time in which the parent itself was stopped.

If a pass fails, that is a bug of ours, and a supervisor with a bug may do more harm than none: all children are killed
and the process ends, to be started anew. Their runs go on from there.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyrula_runtime import kernel, stacks
from pyrula_runtime.log_stream import PatientStream
from pyrula_runtime.wire import Dump, Stack
from pyrula_supervisor import exits
from pyrula_supervisor.actions import (
    Action,
    Answer,
    BlockOver,
    Incident,
    Kill,
    Log,
    Notify,
    Quit,
    Send,
    Spawn,
    TakeStack,
    Terminate,
)
from pyrula_supervisor.crew import Calling, Crew
from pyrula_supervisor.deadlines import TICK_MS
from pyrula_supervisor.events import Event, Exited, ReloadAsked, Said, StopAsked, Tick, Weighed
from pyrula_supervisor.facts import Facts, Identity, Observations
from pyrula_supervisor.links import Link
from pyrula_supervisor.memory import KernelKills
from pyrula_supervisor.model import LANED, NEVER, State
from pyrula_supervisor.observing import Observer
from pyrula_supervisor.options import Policy
from pyrula_supervisor.reducer import begin, step
from pyrula_supervisor.stack_asking import StackAsking
from pyrula_supervisor.status import document
from pyrula_supervisor.tables import Phase
from pyrula_supervisor.telling import status_text

log = logging.getLogger("pyrula.supervisor")

FAILED = 1
# how often it ticks while nothing can fall due (ms)
_IDLE_TICK_MS = 1_000
_WEIGH_EVERY_MS = 2_000
# events that may wait; while there are more, no process is listened to
_MAX_WAITING = 4_096
# how long the end waits for the kernel to end what was killed (seconds)
_LAST_REAP_S = 0.5


@dataclass(slots=True)
class Audience:
    """Who hears of what the reducer wants told, and of every completed pass (with the monotonic clock, ms)."""

    answer: Callable[[Answer], None] = lambda _: None
    notify: Callable[[Notify], None] = lambda _: None
    passed: Callable[[int], None] = lambda _: None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentSetup:
    """What a parent is made of."""

    policy: Policy
    calling: Calling
    identity: Identity
    stream: PatientStream | None = None  # the log, if it has to be pushed on
    longest_ms: int = _IDLE_TICK_MS  # between passes, also while nothing can fall due


class Parent:
    """One supervisor's loop. Everything is called on its thread."""

    def __init__(self, setup: ParentSetup) -> None:
        self.audience = Audience()
        self.last_pass_ms = _mono_ms()
        self._setup = setup
        self._pass_ms = 0  # the clock of the pass under way; 0 between passes
        self._events: deque[Event] = deque()
        self._posted: deque[Event] = deque()
        self._readable: set[str] = set()
        self._somebody_died = False
        self._death = asyncio.Event()
        self._is_due = False
        self._tick_ms = 0  # when the next tick is planned
        self._tick: asyncio.TimerHandle | None = None
        self._weighed_ms = 0
        self._observations = Observations(setup.identity)
        self._crew = Crew(setup.calling, self)
        self._observer = Observer(setup.calling.runtime_dir, setup.policy)
        self._kills = KernelKills()
        self._stacks = StackAsking(setup.calling.runtime_dir, self._crew.pid_of, self.post)
        self._state, self._first = begin(setup.policy, self.last_pass_ms, os.urandom(16))

    # what others may see and ask

    @property
    def state(self) -> State:
        """What the reducer knows."""
        return self._state

    @property
    def version(self) -> str:
        """The version of this program."""
        return self._setup.identity.version

    @property
    def stopping(self) -> bool:
        """Whether the end has begun."""
        return self._state.stopping

    def now_ms(self) -> int:
        """The monotonic clock: that of the pass, while one is under way."""
        return self._pass_ms or _mono_ms()

    def facts(self, now_ms: int) -> Facts:
        """What is known beside the state."""
        return self._observations.facts(now_ms)

    def document(self) -> dict[str, Any]:
        """The status document, now."""
        now_ms = self.now_ms()
        return document(self._state, self.facts(now_ms), now_ms, time.time_ns() // 1_000_000)

    def progress(self) -> str:
        """How far whatever is under way is, in a line."""
        return status_text(self._state)

    def post(self, event: Event) -> None:
        """Have the reducer take an event in the next pass, which stamps it."""
        self._posted.append(event)
        self._pass_is_due()

    # life

    async def run(self) -> int:
        """Supervise until the reducer wants to leave; the exit code."""
        self._loop = asyncio.get_running_loop()
        self._done: asyncio.Future[int] = self._loop.create_future()
        kernel.adopt_descendants()
        stacks.sweep(self._setup.calling.runtime_dir)  # what killed ones have left
        self._listen_to_signals()
        self._guarded(self._first_pass)
        try:
            return await self._done
        finally:
            await self._end()

    def _listen_to_signals(self) -> None:
        stop = {signal.SIGTERM: 143, signal.SIGINT: 130}
        for number, code in stop.items():
            self._loop.add_signal_handler(number, self.post, StopAsked(now_ms=0, exit_code=code))
        self._loop.add_signal_handler(signal.SIGHUP, self.post, ReloadAsked(now_ms=0))
        self._loop.add_signal_handler(signal.SIGCHLD, self._child_died)
        # whoever has started us may have had them blocked, and that is inherited
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {*stop, signal.SIGHUP, signal.SIGCHLD})

    def _child_died(self) -> None:
        self._somebody_died = True
        self._death.set()
        self._pass_is_due()

    def _came(self, incarnation: str) -> None:
        self._readable.add(incarnation)
        self._pass_is_due()

    def _tick_due(self) -> None:
        self._tick = None
        self._pass_is_due()

    def _pass_is_due(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._guarded, self._pass)

    def _guarded(self, work: Callable[[], None]) -> None:
        if self._done.done():
            return
        try:
            work()
        except Exception:
            log.critical("this is a bug of Pyrula: the supervisor cannot go on, its workers are killed", exc_info=True)
            self._quit(Quit(exit_code=FAILED))

    # a pass

    def _first_pass(self) -> None:
        self._pass_ms = _mono_ms()
        for action in self._first:
            self._perform(action)
        self._pass()

    def _pass(self) -> None:
        self._is_due = False
        self._pass_ms = now_ms = _mono_ms()
        try:
            self._take_news(now_ms)
            while self._events and not self._done.done():
                self._take(self._events.popleft())
        finally:
            self._pass_ms = 0
        self.last_pass_ms = now_ms
        if self._setup.stream is not None:
            self._setup.stream.push()
        self.audience.passed(now_ms)
        self._plan_tick(now_ms)

    def _take_news(self, now_ms: int) -> None:
        """Make events of all that has come: of time first, then of processes, then of signals and commands."""
        if self._tick_ms and now_ms >= self._tick_ms:
            late_ms = now_ms - self._tick_ms
            self._events.append(Tick(now_ms=now_ms, late_ms=late_ms))
            self._events.extend(self._observer.look(self._state.children.values(), now_ms, late_ms))
            self._tick_ms = 0
            self._somebody_died = True  # perhaps: a signal says nothing that could not be found without it
            self._weigh(now_ms)
        if self._somebody_died:
            self._somebody_died = False
            self._put_all(self._crew.reap())
        readable, self._readable = self._readable, set()
        for incarnation in readable:
            if len(self._events) < _MAX_WAITING:
                self._put_all(self._crew.read(incarnation))
        while self._posted:
            self.put(dataclasses.replace(self._posted.popleft(), now_ms=now_ms))

    def _put_all(self, events: Iterable[Event]) -> None:
        for event in events:  # one by one, since what makes them may put others in between
            self.put(event)

    def _take(self, event: Event) -> None:
        if not self._is_to_be_heard(event):
            return
        before = self._state
        if isinstance(event, Exited) and event.status == exits.KILLED:
            event = dataclasses.replace(event, by_kernel=self._kills.rose(event.now_ms))
        self._observations.happened(event, before)
        self._state, actions = step(before, event, os.urandom(16))
        for action in actions:
            self._perform(action)

    def _is_to_be_heard(self, event: Event) -> bool:
        """Not so the stack of a process that was made to write it down: what it says itself comes too late."""
        if isinstance(event, Exited):
            self._stacks.forget(event.incarnation)
            child = self._state.children.get(event.incarnation)
            if child is not None and child.role not in LANED:
                self._stacks.clear(event.incarnation)
        if isinstance(event, Said) and isinstance(event.message, Stack):
            return self._stacks.is_answer(event.incarnation, event.message.text)
        return True

    def _plan_tick(self, now_ms: int) -> None:
        policy = self._setup.policy
        quiet_ms = min(_IDLE_TICK_MS, policy.block_warn_ms // 2, policy.stand_in_ms // 2)
        period_ms = quiet_ms if self._is_quiet() else self._observer.next_ms(TICK_MS)
        planned_ms = now_ms + min(period_ms, self._setup.longest_ms)
        if self._tick is not None and self._tick_ms <= planned_ms:
            return
        if self._tick is not None:
            self._tick.cancel()
        self._tick_ms = planned_ms
        self._tick = self._loop.call_later((planned_ms - now_ms) / 1000, self._tick_due)

    def _is_quiet(self) -> bool:
        """Whether nothing but the unforeseen can happen in the next second."""
        state = self._state
        busy = state.reload, state.queued_reload, state.restarts, state.dumps, state.burials, self._crew.is_sweeping
        if state.phase is not Phase.running or any(busy) or state.clerk is None or self._observer.sees_oddities:
            return False
        children = state.children.values()
        well = all(each.deadline_ms == NEVER and not (each.blocked or each.sentence) for each in children)
        return well and state.ready_workers == state.procs

    def _weigh(self, now_ms: int) -> None:
        if now_ms - self._weighed_ms >= _WEIGH_EVERY_MS:
            self._weighed_ms = now_ms
            self._kills.look(now_ms)
            for incarnation, rss_bytes in self._observations.weigh(self._state.children.values(), now_ms).items():
                self._events.append(Weighed(now_ms=now_ms, incarnation=incarnation, rss_bytes=rss_bytes))

    # what the crew needs (Shell)

    def put(self, event: Event) -> None:
        self._events.append(event)

    def watch(self, link: Link, incarnation: str) -> None:
        self._loop.add_reader(link, self._came, incarnation)

    def unwatch(self, link: Link) -> None:
        self._loop.remove_reader(link)

    # actions

    def _perform(self, action: Action) -> None:
        _PERFORM[type(action)](self, action)

    def _spawn(self, action: Spawn) -> None:
        self._crew.spawn(action)

    def _send(self, action: Send) -> None:
        self._crew.send(action)
        if isinstance(action.message, Dump):
            self._stacks.ask(action.incarnation)

    def _take_stack(self, action: TakeStack) -> None:
        self._stacks.take(action.incarnation, action.thread_id)

    def _kill(self, action: Kill) -> None:
        self._crew.kill(action.incarnation)

    def _terminate(self, action: Terminate) -> None:
        self._crew.terminate(action.incarnation)

    def _answer(self, action: Answer) -> None:
        self.audience.answer(action)

    def _notify(self, action: Notify) -> None:
        self.audience.notify(action)

    def _log(self, action: Log) -> None:
        log.log(action.level, "%s", action.text, extra=dict(action.fields))

    def _note(self, action: Incident) -> None:
        self._observations.noted(action, time.time_ns() // 1_000_000)

    def _count_block(self, action: BlockOver) -> None:
        self._observations.block_over(action)

    def _quit(self, action: Quit) -> None:
        if not self._done.done():
            self._done.set_result(action.exit_code)

    # the end

    async def _end(self) -> None:
        """Leave nothing alive, in bounded time; what is left after it dies with this process."""
        if self._tick is not None:
            self._tick.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_REAP_S):
                while not self._crew.kill_all():
                    self._death.clear()
                    await self._death.wait()
        self._loop.remove_signal_handler(signal.SIGCHLD)
        self._crew.close()
        self._observer.close()


_PERFORM: Mapping[type[Any], Callable[[Parent, Any], None]] = {
    Spawn: Parent._spawn,
    Send: Parent._send,
    TakeStack: Parent._take_stack,
    Kill: Parent._kill,
    Terminate: Parent._terminate,
    Answer: Parent._answer,
    Notify: Parent._notify,
    Log: Parent._log,
    Incident: Parent._note,
    BlockOver: Parent._count_block,
    Quit: Parent._quit,
}


def _mono_ms() -> int:
    return time.monotonic_ns() // 1_000_000
