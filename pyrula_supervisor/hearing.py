"""What the processes say: written down, and where it changes a child, by the table."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from pyrula_runtime.wire import (
    Blocked,
    Buried,
    CannotStart,
    Evacuated,
    Forked,
    Hello,
    Judged,
    Queue,
    Ready,
    Report,
    Role,
    Stack,
    Unblocked,
)
from pyrula_supervisor import blocks, burials, cells, commands, endings, refusals, verdicts
from pyrula_supervisor.actions import Incident
from pyrula_supervisor.draft import Draft
from pyrula_supervisor.events import Said
from pyrula_supervisor.model import NEVER, NO_SLOT, SLOTTED, Child
from pyrula_supervisor.tables import ChildEvent


def said(draft: Draft, event: Said) -> None:
    """A process said something. One that we know no more has nothing to say, but for the clerk's last burials."""
    if isinstance(event.message, Buried):
        burials.buried(draft, event.message)
    elif child := draft.state.children.get(event.incarnation):
        _HEAR[type(event.message)](draft, child, event.message)


def _ready(draft: Draft, child: Child, message: Ready) -> None:
    facts = {"deadline_ms": NEVER, "note": message.note, "limits_ms": message.limits_ms}
    changed = draft.move(child, ChildEvent.ready, ready_ms=draft.now_ms, **facts)
    if changed is None:
        return
    took_ms = draft.now_ms - child.asked_ms
    draft.say(f"{child.title} is ready after {took_ms / 1000:.3g} s{f': {message.note}' if message.note else ''}")
    if child.role in SLOTTED:
        draft.set(ever_ready=True)


def _report(draft: Draft, child: Child, message: Report) -> None:
    child = draft.change(child, report=message, reported_ms=draft.now_ms)
    if not (message.draining and child.serving):
        return
    within_ms = draft.state.policy.drain_ms
    if child.role is Role.cell:
        draft.move(child, ChildEvent.drain, cause="", planned=True, deadline_ms=draft.now_ms + within_ms)
        return
    endings.leaves(draft, child)
    cause = "it leaves by itself: somebody else told it to"
    draft.say(f"{child.title} drains, which nobody here had asked for; another takes its place", logging.WARNING)
    draft.move(child, ChildEvent.drain, cause=cause, deadline_ms=draft.now_ms + within_ms)


def _evacuated(draft: Draft, child: Child, message: Evacuated) -> None:
    """It tells of itself, or the clerk of a mute one."""
    held_by = child if message.worker == child.incarnation else draft.state.children.get(message.worker)
    title, slot = (held_by.title, held_by.slot) if held_by else (f"worker {message.worker}", NO_SLOT)
    count = len(message.run_ids)
    if not count:
        return
    text = f"{count} run{'' if count == 1 else 's'} of {title} {'was' if count == 1 else 'were'} handed back, uncharged"
    by = held_by.blocked if held_by else None
    whose = {"run_id": by.run_id, "workflow": by.workflow, "step": by.step} if by else {}
    draft.say(text, logging.WARNING, event="lane:evacuated", slot=slot, **whose)
    draft.do(Incident(kind="evacuation", text=text, slot=slot, **whose))


def _judged(draft: Draft, child: Child, message: Judged) -> None:
    """What a death meant for one run."""
    del child
    cells.judged(draft, message)
    burials.explained(draft, message)
    verdicts.judged(draft, message)


def _stack(draft: Draft, child: Child, message: Stack) -> None:
    commands.stack(draft, child, message)
    if child.dumped:
        draft.say(f"{child.title} is stuck before it is ready:\n{message.text}", logging.ERROR)
    blocks.stack(draft, child, message.text)


def _queue(draft: Draft, child: Child, message: Queue) -> None:
    del child
    former = draft.state.queue
    if former is None or former.store_ok != message.store_ok:
        draft.set(store_ms=draft.now_ms)
    draft.set(queue=message, queue_ms=draft.now_ms)
    cells.counted(draft, message)


def _nothing(draft: Draft, child: Child, message: Any) -> None:
    """The shell's own business: who a process is, and which pid the template's fork has."""


_HEAR: Mapping[type[Any], Callable[[Draft, Child, Any], None]] = {
    Hello: _nothing,
    Forked: _nothing,
    Ready: _ready,
    CannotStart: refusals.cannot_start,
    Report: _report,
    Blocked: blocks.heard,
    Unblocked: blocks.heard_over,
    Evacuated: _evacuated,
    Judged: _judged,
    Stack: _stack,
    Queue: _queue,
}
