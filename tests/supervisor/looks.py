"""Lanes that stand still, as the shell tells the reducer of them; and what the clerk is told because of that."""

from __future__ import annotations

from typing import Any

from pyrula_runtime.core.standstill import Verdict
from pyrula_runtime.wire import Bury, Drain, Finding, Stage, StandIn
from pyrula_supervisor.actions import Send
from pyrula_supervisor.events import LaneSeen
from tests.supervisor.fake_processes import Process, World

HELD, FREE = Verdict.held_on_cpu, Verdict.blocked
WHOSE = {"run_id": "r1", "workflow": "order", "step": "charge", "op_id": "o1", "entries": 7}
STACK = 'Current thread 0x1 (most recent call first):\n  File "/srv/app.py", line 9 in slow\n'


def look(on: World, process: Process, stuck_ms: int, verdict: Verdict = FREE, **changes: Any) -> None:
    """The shell has looked at a lane."""
    facts: dict[str, Any] = {**WHOSE, **changes} if stuck_ms else changes
    event = LaneSeen(now_ms=on.now_ms, incarnation=process.name, verdict=verdict, stuck_ms=stuck_ms, **facts)
    on.feed(event)


def stuck(on: World, process: Process, until_ms: int, verdict: Verdict = FREE, **changes: Any) -> None:
    """A lane stands still for so long, under looks as the shell takes them."""
    seen = on.child(process).seen
    for at_ms in range((seen.stuck_ms if seen else 0) + 250, until_ms + 1, 250):
        on.tick()
        look(on, process, at_ms, verdict, **changes)


def stand_ins(on: World) -> list[tuple[str, Stage, str]]:
    """What the clerk was told of the mute."""
    said = (action.message for action in on.done(Send) if isinstance(action.message, StandIn))
    return [(each.incarnation, each.stage, each.keep) for each in said]


def drained(on: World) -> list[str]:
    return [action.incarnation for action in on.done(Send) if isinstance(action.message, Drain)]


def finding_of(on: World, name: str) -> Finding:
    """What the clerk was told of a death."""
    told = [action.message for action in on.done(Send) if isinstance(action.message, Bury)]
    return next(each.finding for each in told if each.incarnation == name)
