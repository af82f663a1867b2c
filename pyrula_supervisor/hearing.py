"""What the processes say: written down, and where it changes a child, by the table."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from pyrula_runtime.wire import (
    Blocked,
    Buried,
    CannotStart,
    Forked,
    Hello,
    Queue,
    Ready,
    Report,
    Role,
    Stack,
    Unblocked,
)
from pyrula_supervisor import burials, commands, refusals
from pyrula_supervisor.actions import Incident
from pyrula_supervisor.draft import Draft
from pyrula_supervisor.events import Said
from pyrula_supervisor.model import NEVER, Child
from pyrula_supervisor.tables import ChildEvent


def said(draft: Draft, event: Said) -> None:
    """A process said something. One that we know no more has nothing to say, but for the clerk's last burials."""
    if isinstance(event.message, Buried):
        burials.buried(draft, event.message)
    elif child := draft.state.children.get(event.incarnation):
        _HEAR[type(event.message)](draft, child, event.message)


def _ready(draft: Draft, child: Child, message: Ready) -> None:
    changed = draft.move(child, ChildEvent.ready, ready_ms=draft.now_ms, deadline_ms=NEVER, note=message.note)
    if changed is None:
        return
    took_ms = draft.now_ms - child.asked_ms
    draft.say(f"{child.title} is ready after {took_ms / 1000:.3g} s{f': {message.note}' if message.note else ''}")
    if child.role is Role.worker:
        draft.set(ever_ready=True)


def _report(draft: Draft, child: Child, message: Report) -> None:
    child = draft.change(child, report=message, reported_ms=draft.now_ms)
    if message.draining and child.serving:
        cause = "it leaves by itself: somebody else told it to"
        draft.say(f"{child.title} drains, which nobody here had asked for; another takes its place", logging.WARNING)
        within_ms = draft.state.policy.drain_ms
        draft.move(child, ChildEvent.drain, cause=cause, deadline_ms=draft.now_ms + within_ms)


def _blocked(draft: Draft, child: Child, message: Blocked) -> None:
    if draft.move(child, ChildEvent.block) is None:
        return
    what = f"run {message.run_id} ({message.workflow}, step {message.step})" if message.run_id else "code of no run"
    text = f"{child.title} is blocked for {message.for_s:.3g} s by {what} at {message.line}"
    if child.blocked is None or child.blocked.run_id != message.run_id:
        draft.say(text, logging.WARNING)
        draft.do(Incident(kind="block", text=text, slot=child.slot, run_id=message.run_id))
    draft.change(draft.state.children[child.incarnation], blocked=message, blocked_ms=draft.now_ms)


def _unblocked(draft: Draft, child: Child, message: Unblocked) -> None:
    if draft.move(child, ChildEvent.unblock, blocked=None, blocked_ms=NEVER):
        draft.say(f"{child.title} goes on after {message.after_s:.3g} s")


def _stack(draft: Draft, child: Child, message: Stack) -> None:
    commands.stack(draft, child, message)
    if child.dumped:
        draft.say(f"{child.title} is stuck before it is ready:\n{message.text}", logging.ERROR)


def _queue(draft: Draft, child: Child, message: Queue) -> None:
    del child
    former = draft.state.queue
    if former is None or former.store_ok != message.store_ok:
        draft.set(store_ms=draft.now_ms)
    draft.set(queue=message, queue_ms=draft.now_ms)


def _nothing(draft: Draft, child: Child, message: Any) -> None:
    """The shell's own business: who a process is, and which pid the template's fork has."""


_HEAR: Mapping[type[Any], Callable[[Draft, Child, Any], None]] = {
    Hello: _nothing,
    Forked: _nothing,
    Ready: _ready,
    CannotStart: refusals.cannot_start,
    Report: _report,
    Blocked: _blocked,
    Unblocked: _unblocked,
    Stack: _stack,
    Queue: _queue,
}
