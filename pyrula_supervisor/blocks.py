"""Lanes that stand still: what the parent sees, what the child says of it itself, and what follows from both.

The parent judges, by looking at the child from outside (`observing`): its looks alone lead up the ladder. The child
knows more of the line as long as it can speak, so what people are told is put together: whoever comes first makes the
block known, the other adds to it. One block is told once.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from typing import Any

from pyrula_runtime.core import hints
from pyrula_runtime.core.deaths import Cause
from pyrula_runtime.core.standstill import MOVING, Verdict
from pyrula_runtime.wire import Blocked, Unblocked, cut
from pyrula_supervisor import exits, findings, ladder, sentences
from pyrula_supervisor.actions import BlockOver, Incident
from pyrula_supervisor.draft import Draft
from pyrula_supervisor.events import LaneSeen
from pyrula_supervisor.ladder import Rung
from pyrula_supervisor.model import NEVER, SLOTTED, Child
from pyrula_supervisor.tables import ChildEvent


def seen(draft: Draft, event: LaneSeen) -> None:
    """A lane was looked at that stands still, or has stood still until now."""
    child = draft.state.children.get(event.incarnation)
    if child is None or not child.works:
        return
    # a look that came late does not know who was stopped
    silent_ms = child.silent_ms if event.verdict is Verdict.observer_late else event.silent_ms
    keeps_lock = event.lock_ms >= ladder.LOCK_MS
    # such a one has its GIL held if it is not stopped, though a stop may have lain between
    mute = ladder.is_mute(event.verdict, before=child.mute or keeps_lock)
    child = draft.change(child, mute=mute, silent_ms=silent_ms)
    if keeps_lock:
        sentences.keeps_lock(draft, draft.change(child, seen=event))
    elif event.stuck_ms == 0 and silent_ms and event.verdict not in MOVING:
        return  # what the child has said of itself is not over because it is silent
    elif event.stuck_ms == 0 or _is_another(child.seen, event):
        child = _over(draft, child)
        if event.stuck_ms or event.lock_ms or event.verdict in _SHOWN:
            draft.change(child, seen=event)
            _climb(draft, event.incarnation)
    else:
        draft.change(child, seen=event)
        _climb(draft, event.incarnation)


# shown although nothing follows from it
_SHOWN = frozenset({Verdict.stopped, Verdict.frozen})


def heard(draft: Draft, child: Child, message: Blocked) -> None:
    """The child says so itself."""
    begun_ms = draft.now_ms - round(message.for_s * 1000)
    if not child.works or begun_ms < child.freed_ms:
        return  # too late: that block is over
    draft.move(child, ChildEvent.block)
    _show(draft, child.incarnation, dataclasses.replace(message, gil_held=message.gil_held or child.mute))
    _announce(draft, child.incarnation)


def heard_over(draft: Draft, child: Child, message: Unblocked) -> None:
    """The child says that its lane goes on."""
    if child.blocked is not None:
        _over(draft, child, round(message.after_s * 1000))


def stack(draft: Draft, child: Child, text: str) -> None:
    """Its stack, taken from outside since it could not speak."""
    sentences.looked(draft, child, text)
    child = draft.state.children[child.incarnation]
    if child.blocked is None or child.seen is None or (child.blocked.line and not child.mute):
        return
    line = findings.line_of(text)
    hint = hints.hint(Cause.loop_blocked, line, text)
    _show(draft, child.incarnation, dataclasses.replace(child.blocked, line=line, stack=cut(text), hint=hint))
    _announce(draft, child.incarnation)


def ended(draft: Draft, child: Child) -> None:
    """The child is dead, and its block with it."""
    if child.blocked is not None:
        draft.do(BlockOver(for_ms=lasted_ms(child, draft.now_ms)))


def lasted_ms(child: Child, at_ms: int) -> int:
    """For how long its lane has stood still, as far as it was told; 0: it does not."""
    return 0 if child.blocked is None else round(child.blocked.for_s * 1000) + at_ms - child.blocked_ms


def _is_another(before: LaneSeen | None, now: LaneSeen) -> bool:
    """Whether other code keeps the lane now: the former block ended between two looks."""
    if before is None or before.stuck_ms == 0:
        return False
    return (before.entries, before.run_id) != (now.entries, now.run_id) or now.stuck_ms < before.stuck_ms


def _over(draft: Draft, child: Child, after_ms: int = 0) -> Child:
    child = sentences.pardon(draft, child)
    if child.blocked is not None:
        after_ms = after_ms or lasted_ms(child, draft.now_ms)
        whose: Mapping[str, Any] = {
            "run_id": child.blocked.run_id,
            "workflow": child.blocked.workflow,
            "step": child.blocked.step,
        }
        draft.say(f"{child.title} goes on after {exits.lasted(after_ms)}", event="lane:free", slot=child.slot, **whose)
        draft.do(BlockOver(for_ms=after_ms))
        draft.move(child, ChildEvent.unblock)
        child = draft.change(draft.state.children[child.incarnation], freed_ms=draft.now_ms)
    return draft.change(
        child, blocked=None, blocked_ms=NEVER, announced=False, placed=False, seen=None, rung=Rung.ground
    )


def _climb(draft: Draft, name: str) -> None:
    """Do what is due on every rung that is new."""
    child = draft.state.children[name]
    event, policy = child.seen, draft.state.policy
    if event is None or event.stuck_ms == 0:
        return
    if child.blocked is not None:
        known = dataclasses.replace(child.blocked, for_s=event.stuck_ms / 1000, gil_held=child.mute)
        _show(draft, name, known)
    limit_ms = ladder.limit_of(event.workflow, child.limits_ms, policy)
    for rung in ladder.climb(child.rung, ladder.rung_at(event.stuck_ms, policy, limit_ms)):
        draft.change(draft.state.children[name], rung=rung)
        _ON_RUNG[rung](draft, draft.state.children[name], event)


def _warned(draft: Draft, child: Child, event: LaneSeen) -> None:
    draft.move(child, ChildEvent.block)
    if child.blocked is None:
        _show(draft, child.incarnation, _from_outside(event, gil_held=child.mute))
    if child.mute or child.blocked is None:
        draft.look_at(child)


def _told(draft: Draft, child: Child, event: LaneSeen) -> None:
    """Wait no longer for the line."""
    del event
    _announce(draft, child.incarnation)


def _replaced(draft: Draft, child: Child, event: LaneSeen) -> None:
    """Permit a surge beside it (`surging`); a cell, and one that leaves anyway, has no place to be filled."""
    if child.role in SLOTTED and child.serving:
        lasted = exits.lasted(event.stuck_ms)
        draft.change(child, surged=True, outdated=child.outdated or f"its lane was blocked for {lasted}")


def _evacuated(draft: Draft, child: Child, event: LaneSeen) -> None:
    """With the GIL free the child itself hands back what it holds, else the clerk is told to (`standing`)."""
    if event.unknown:
        return  # see standing
    by = "the clerk hands" if child.mute else "it hands"
    text = f"{child.title} is blocked for {exits.lasted(event.stuck_ms)}: {by} back its other turns, uncharged"
    draft.say(text, logging.WARNING, event="lane:evacuates", slot=child.slot, run_id=event.run_id)


def _ended(draft: Draft, child: Child, event: LaneSeen) -> None:
    whose = _UNKNOWN if event.unknown else whose_of(event.run_id, event.workflow, event.step)
    sentences.blocked_too_long(draft, child, f"{whose} blocked it for {exits.lasted(event.stuck_ms)}")


_UNKNOWN = "a thread of which nobody can tell whose it is"
_ON_RUNG: Mapping[Rung, Callable[[Draft, Child, LaneSeen], None]] = {
    Rung.warned: _warned,
    Rung.told: _told,
    Rung.replaced: _replaced,
    Rung.evacuated: _evacuated,
    Rung.ended: _ended,
}


def _from_outside(event: LaneSeen, *, gil_held: bool) -> Blocked:
    return Blocked(
        incarnation=event.incarnation,
        run_id=event.run_id,
        workflow=event.workflow,
        step=event.step,
        op_id=event.op_id,
        for_s=event.stuck_ms / 1000,
        line="",
        stack="",
        gil_held=gil_held,
    )


def _show(draft: Draft, name: str, blocked: Blocked) -> None:
    draft.change(draft.state.children[name], blocked=blocked, blocked_ms=draft.now_ms)


def _announce(draft: Draft, name: str) -> None:
    """Tell people, once; and once more when the line comes later."""
    child = draft.state.children[name]
    by = child.blocked
    if by is None:
        return
    if child.announced:
        if by.line and not child.placed:
            draft.change(child, placed=True)
            draft.say(f"{child.title} is stuck at {by.line}", logging.WARNING, line=by.line, slot=child.slot)
        return
    draft.change(child, announced=True, placed=bool(by.line))
    held = " with the GIL held" if by.gil_held else ""
    where = f" at {by.line}" if by.line else ""
    unknown = child.seen is not None and child.seen.unknown
    who = _UNKNOWN if unknown else whose_of(by.run_id, by.workflow, by.step)
    text = f"{child.title} is blocked for {by.for_s:.3g} s{held} by {who}{where}"
    verdict = child.seen.verdict if child.seen else Verdict.blocked
    whose: Mapping[str, Any] = {"run_id": by.run_id, "workflow": by.workflow, "step": by.step, "line": by.line}
    draft.say(text, logging.WARNING, event="lane:blocked", slot=child.slot, verdict=str(verdict), **whose)
    draft.do(Incident(kind="block", text=text, slot=child.slot, verdict=verdict, **whose))


def whose_of(run_id: str, workflow: str, step: str) -> str:
    """Whose code it is, in words."""
    if not run_id:
        return "code of no run"
    return f"run {run_id} ({workflow}, {f'step {step}' if step else 'in its body'})"
