"""What the end of a process means: planned, a failed start, a departure that others asked for, or a death.

A failed start, a death and an early departure slow the next start of the same slot down; a planned end does not. Until
the first worker was ready, failed starts are counted over all slots: after a burst of them the supervisor gives up,
since what never worked will not begin to by itself. Once a worker was ready it never gives up: it stays, degraded and
visible, and recovers when the cause goes.
"""

from __future__ import annotations

import logging

from pyrula_runtime.wire import Role
from pyrula_supervisor import (
    blocks,
    burials,
    cells,
    commands,
    exits,
    findings,
    pace,
    reloading,
    rolling,
    stopping,
)
from pyrula_supervisor.actions import Incident
from pyrula_supervisor.draft import Draft
from pyrula_supervisor.events import Exited, SpawnFailed
from pyrula_supervisor.model import LANED, NEVER, Child, Pace
from pyrula_supervisor.tables import ChildEvent, ChildState, Phase

BURST = 5
GAVE_UP = 1


def exited(draft: Draft, event: Exited) -> None:
    """A process was reaped."""
    child = draft.state.children.get(event.incarnation)
    if child is None:
        # It came after it had been given up; whatever it claimed in between is freed like that of any other.
        burials.add(draft, event.incarnation)
        return
    if child.role in LANED:
        told = findings.of_death(child, event, draft.state.policy)
        clean = child.planned and exits.was_asked(event.status)
        burials.add(draft, child.incarnation, told, clean=clean)
    gone(draft, child, exits.words(event.status), was_asked=exits.was_asked(event.status))


def spawn_failed(draft: Draft, event: SpawnFailed) -> None:
    """A process could not be made. If its template did not even take the order, that is not the slot's fault.

    Such a template is dead, its corpse not seen yet, or as good as dead; what it is asked next would be lost, too.
    """
    child = draft.state.children.get(event.incarnation)
    if child is None:
        return
    template = draft.state.children.get(child.by_template)
    if template is not None:
        _lost_with_template(draft, child)
        if not template.leaving:
            draft.kill(template, "it did not take an order to fork")
    else:
        gone(draft, child, f"could not be made: {event.reason}", was_asked=False)


def gone(draft: Draft, child: Child, how: str, *, was_asked: bool) -> None:
    """A process is no more, or never was."""
    draft.move(child, ChildEvent.exit)
    draft.forget(child)
    if child.role in LANED and child.incarnation not in draft.state.burials:
        burials.add(draft, child.incarnation)
    blocks.ended(draft, child)
    text = _text(draft, child, how)
    commands.gone(draft, child, text)
    if child.planned:
        _planned(draft, child, text, was_asked=was_asked)
    else:
        _unplanned(draft, child, text, was_asked=was_asked)
    {Role.clerk: _clerk_gone, Role.template: _template_gone, Role.cell: _cell_gone}.get(child.role, _worker_gone)(
        draft, child, text
    )


def _text(draft: Draft, child: Child, how: str) -> str:
    age = f" after {exits.lasted(draft.now_ms - child.asked_ms)}" if child.pid else ""
    why = child.cause
    if child.state is ChildState.killed and how != exits.words(exits.KILLED):
        why = f"just before it was {why}"
    return f"{child.title} {how}{age}" + (f" ({why})" if why else "")


def _planned(draft: Draft, child: Child, text: str, *, was_asked: bool) -> None:
    # One that we killed was told of when it was killed, and a template that cannot be used leaves as it likes.
    crashed = not was_asked and child.state is not ChildState.killed and child.role is not Role.template
    draft.say(text, logging.WARNING if crashed else logging.INFO)
    if crashed:
        draft.do(Incident(kind="death", text=text, slot=child.slot))


def _unplanned(draft: Draft, child: Child, text: str, *, was_asked: bool) -> None:
    if not child.was_ready:
        draft.say(text, logging.ERROR)
        draft.do(Incident(kind="start_failed", text=text, slot=child.slot))
    elif was_asked:
        draft.say(f"{text}, which nobody here had asked for", logging.WARNING)
    else:
        draft.say(text, logging.ERROR)
        if child.state is not ChildState.killed:
            draft.do(Incident(kind="death", text=text, slot=child.slot))


def leaves(draft: Draft, child: Child) -> None:
    """It leaves by itself, and another takes its place now: what its end will have been worth is known by its age."""
    if slot := draft.slot(child.slot):
        draft.mark(slot.number, pace=_paced(draft, child, slot.pace))


def _worker_gone(draft: Draft, child: Child, text: str) -> None:
    slot = draft.slot(child.slot)
    if slot:
        draft.mark(slot.number, last_exit=text)
    if child.planned:
        return
    if slot:
        has_left = child.state is ChildState.draining
        paced = slot.pace if has_left else _paced(draft, child, slot.pace)
        draft.mark(slot.number, pace=paced, restarts=slot.restarts + 1)
    if child.was_ready:
        reloading.died(draft, child, text)
    else:
        _failed_start(draft, child, text)


def _template_gone(draft: Draft, child: Child, text: str) -> None:
    for fork in list(draft.state.forks_of(child.incarnation)):
        # It may have come to life all the same: then it is killed as an unknown when it shows.
        if not fork.pid and not fork.was_ready:
            _lost_with_template(draft, fork)
    if child.planned:
        return
    draft.set(template_pace=_paced(draft, child, draft.state.template_pace))
    if not draft.state.ever_ready and child.dumped:
        # All workers depend on it, and what hangs once will hang again: five timeouts would only take longer.
        _give_up(draft, text)
    if child.was_ready:
        reloading.died(draft, child, text)
    _failed_start(draft, child, text)


def _cell_gone(draft: Draft, child: Child, text: str) -> None:
    del text
    cells.gone(draft, child)


def _clerk_gone(draft: Draft, child: Child, text: str) -> None:
    del text
    burials.forget_told(draft)
    if not child.planned:
        draft.set(clerk_pace=_paced(draft, child, draft.state.clerk_pace))


def _lost_with_template(draft: Draft, fork: Child) -> None:
    """A fork that was asked of a template that died: the template's pace bounds how often that happens."""
    draft.forget(fork)
    burials.add(draft, fork.incarnation)
    draft.say(f"{fork.title} was lost with its template", logging.WARNING)


def _paced(draft: Draft, child: Child, former: Pace) -> Pace:
    healthy = child.ready_ms != NEVER and draft.now_ms - child.ready_ms >= pace.HEALTHY_MS
    return pace.failed(Pace() if healthy else former, draft.now_ms, draft.chance())


def _failed_start(draft: Draft, child: Child, text: str) -> None:
    """A worker is not to be had, for its own fault or for want of a template."""
    if not child.was_ready:
        reloading.failed_start(draft, child, text)
    rolling.failed_start(draft, text, None if child.role is Role.template else child.slot)
    if draft.state.ever_ready:
        return
    draft.set(failed_starts=draft.state.failed_starts + 1)
    if draft.state.failed_starts >= BURST:
        _give_up(draft, f"{draft.state.failed_starts} starts failed and none succeeded; the last: {text}")


def _give_up(draft: Draft, text: str) -> None:
    if draft.state.phase is Phase.starting:
        stopping.give_up(draft, GAVE_UP, f"giving up: {text}")
