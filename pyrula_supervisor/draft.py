"""One step of the reducer in the making: the state so far and the actions so far.

Seen from outside a step is a function of values. Inside it several subjects have their say one after another, each on
what the former left, and threading a pair through all of them would hide what they do.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from typing import Any

from pyrula_runtime.wire import Drain, Dump, Role
from pyrula_supervisor.actions import Action, Answer, Kill, Log, Send, Spawn, TakeStack
from pyrula_supervisor.model import NEVER, NO_SLOT, Child, Slot, State
from pyrula_supervisor.tables import ChildEvent, ChildState, PhaseEvent, child_after, phase_after

# A child that does not read its Drain may still have a signal handler that runs.
NUDGE_MS = 2_000
# The kernel takes its time to end a process with much memory; one in an uninterruptible wait must not be waited for.
KILL_AGAIN_MS = 5_000


class Draft:
    """The state and the actions of one step."""

    def __init__(self, state: State, now_ms: int, seed: bytes) -> None:
        self.state = state
        self.now_ms = state.at(now_ms)
        self.actions: list[Action] = []
        self._seed = seed
        self._drawn = 0

    def set(self, **changes: Any) -> None:
        """Change the state."""
        self.state = dataclasses.replace(self.state, **changes)

    def do(self, action: Action) -> None:
        """Have something done."""
        self.actions.append(action)

    def say(self, text: str, level: int = logging.INFO, **fields: object) -> None:
        """Have a line logged, with these fields beside the text."""
        self.do(Log(level=level, text=text, fields=fields))

    def answer(self, asker: int, text: str, *, ok: bool = True) -> None:
        """Answer whoever asked, if somebody waits for it."""
        if asker:
            self.do(Answer(asker=asker, ok=ok, text=text))

    def pause(self, ms: int) -> None:
        """Take a pause of the supervisor itself off the supervised clock."""
        self.now_ms -= ms
        self.set(paused_ms=self.state.paused_ms + ms, slept=True)

    def enter(self, event: PhaseEvent) -> None:
        """Move the supervisor."""
        self.set(phase=phase_after(self.state.phase, event))

    # chance

    def incarnation(self) -> str:
        """A fresh identity: 16 hexadecimal digits."""
        return self._draw().hex()

    def chance(self) -> float:
        """A fresh number, at least 0 and less than 1."""
        return int.from_bytes(self._draw()) / 2**64

    def _draw(self) -> bytes:
        self._drawn += 1
        return hashlib.blake2b(self._drawn.to_bytes(4), key=self._seed, digest_size=8).digest()

    # children

    def put(self, child: Child) -> Child:
        """Keep a child, new or changed."""
        self.set(children={**self.state.children, child.incarnation: child})
        return child

    def change(self, child: Child, **changes: Any) -> Child:
        """Keep a child with changes."""
        return self.put(dataclasses.replace(child, **changes))

    def move(self, child: Child, event: ChildEvent, **facts: Any) -> Child | None:
        """Move a child by the table; None if the event changes nothing."""
        state = child_after(child.state, event)
        return None if state is None else self.change(child, state=state, **facts)

    def forget(self, child: Child) -> None:
        """A child is gone."""
        self.set(children={name: each for name, each in self.state.children.items() if name != child.incarnation})

    def spawn(self, role: Role, generation: int, slot: int = NO_SLOT, by_template: str = "") -> Child:
        """Have a process made."""
        child = Child(
            incarnation=self.incarnation(),
            role=role,
            slot=slot,
            generation=generation,
            by_template=by_template,
            asked_ms=self.now_ms,
            deadline_ms=self.now_ms + self.state.policy.startup_timeout_ms,
        )
        self.do(
            Spawn(incarnation=child.incarnation, role=role, slot=slot, generation=generation, by_template=by_template)
        )
        return self.put(child)

    def drain(self, child: Child, cause: str, within_ms: int) -> None:
        """Have a child finish what it has and leave; kill it when that takes longer than `within_ms`."""
        self.do(Send(incarnation=child.incarnation, message=Drain()))
        self.move(
            child,
            ChildEvent.drain,
            cause=cause,
            planned=True,
            deadline_ms=self.now_ms + within_ms,
            nudge_ms=self.now_ms + NUDGE_MS,
        )

    def kill(self, child: Child, cause: str, **facts: Any) -> None:
        """Kill a child; `cause` says why, in words that go on from "killed by us because"."""
        if child.state is not ChildState.killed:
            facts["cause"] = f"killed by us because {cause}"
        self.do(Kill(incarnation=child.incarnation))
        self.move(child, ChildEvent.kill, deadline_ms=self.now_ms + KILL_AGAIN_MS, nudge_ms=NEVER, **facts)

    def look_at(self, child: Child) -> None:
        """Have its stack: of its lane, or if it cannot answer of the thread that keeps it from that."""
        if child.mute:
            thread_id = child.seen.thread_id if child.seen else 0
            self.do(TakeStack(incarnation=child.incarnation, thread_id=thread_id))
        else:
            self.do(Send(incarnation=child.incarnation, message=Dump()))

    # slots

    def slot(self, number: int) -> Slot | None:
        """A wanted slot."""
        return self.state.slots[number] if 0 <= number < len(self.state.slots) else None

    def mark(self, number: int, **changes: Any) -> None:
        """Change a wanted slot; those that are wanted no more need no memory."""
        if slot := self.slot(number):
            changed = dataclasses.replace(slot, **changes)
            self.set(slots=(*self.state.slots[:number], changed, *self.state.slots[number + 1 :]))
