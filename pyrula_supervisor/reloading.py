"""Reload: a new generation of workers, proved by one canary before it replaces the old one slot by slot.

A generation is what was on disk when its template imported it, or when its first worker was spawned. The old template
stays until the end, so that the old generation can be had back; a spawned worker always imports what is on disk now, so
there a generation that fails half-way can only be kept from spreading.

    importing → proving → settling → rolling → done
         └─────────┴──────────┴─────────┴──────→ failed

Failure leaves the old generation current. The canary goes, and so does what was coming; workers of the new generation
that serve already are replaced back one by one, new before old, by the same rule that rolled them out (`rolling`): they
hold runs, and a rollback that drops capacity would be worse than what it undoes. One reload is made at a time and one
more is remembered, however often it was asked for: that one begins after everything that was asked before it.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

from pyrula_runtime.wire import Role
from pyrula_supervisor import rolling, starting
from pyrula_supervisor.actions import Notify
from pyrula_supervisor.draft import Draft
from pyrula_supervisor.events import ReloadAsked
from pyrula_supervisor.model import SLOTTED, Child, Reload
from pyrula_supervisor.tables import Phase, ReloadEvent, ReloadPhase, reload_after

# A template has nothing to finish.
TEMPLATE_LEAVES_MS = 2_000
CANARY_SLOT = 0


def asked(draft: Draft, event: ReloadAsked) -> None:
    """Somebody wants what is on disk now."""
    state = draft.state
    askers = (event.asker,) if event.asker else ()
    if state.stopping:
        draft.answer(event.asker, "the supervisor is stopping, so nothing is reloaded", ok=False)
    elif not state.ever_ready:
        text = "not reloaded: no worker has been ready yet, and those that start take the code that is there now"
        draft.say(text, logging.WARNING)
        draft.answer(event.asker, text, ok=False)
    elif state.reload:
        draft.set(queued_reload=(*(state.queued_reload or ()), *askers))
    else:
        _begin(draft, askers)


def progress(draft: Draft, *, ticked: bool) -> None:
    """Take a reload further. Only a tick may find that the canary has lived long enough."""
    if draft.state.stopping:
        return
    if draft.state.reload is None and draft.state.queued_reload is not None:
        _begin(draft, draft.state.queued_reload)
    reload = draft.state.reload
    if reload and reload.phase is ReloadPhase.importing:
        reload = _import(draft, reload)
    if reload and reload.phase is ReloadPhase.proving:
        reload = _prove(draft, reload)
    if reload and reload.phase is ReloadPhase.settling and ticked:
        reload = _commit(draft, reload)
    if reload and reload.phase is ReloadPhase.rolling:
        _finish(draft, reload)


def failed_start(draft: Draft, child: Child, text: str) -> bool:
    """A process could not start: whether that ends a reload."""
    reload = draft.state.reload
    if reload is None or child.generation != reload.new.number or child.role in (Role.clerk, Role.cell):
        return False
    _fail(draft, reload, text)
    return True


def died(draft: Draft, child: Child, text: str) -> None:
    """A process died that had been ready."""
    reload = draft.state.reload
    if reload is None or child.generation != reload.new.number or child.role in (Role.clerk, Role.cell):
        return
    lived_ms = draft.now_ms - child.ready_ms
    proved = reload.phase is ReloadPhase.rolling
    if not proved or (child.role in SLOTTED and lived_ms < draft.state.policy.reload_settle_ms):
        _fail(draft, reload, text)


def cancel(draft: Draft, why: str) -> None:
    """The supervisor stops: nothing is reloaded any more."""
    askers = draft.state.queued_reload or ()
    if draft.state.reload:
        askers = (*draft.state.reload.askers, *askers)
    for asker in askers:
        draft.answer(asker, f"not reloaded: {why}", ok=False)
    draft.set(reload=None, queued_reload=None)


def _begin(draft: Draft, askers: tuple[int, ...]) -> None:
    number = draft.state.generations + 1
    new = starting.generation_of(draft.state.policy, number)
    reload = Reload(phase=ReloadPhase.importing, old=draft.state.generation, new=new, askers=askers)
    draft.set(generations=number, reload=reload, queued_reload=None)
    _notify(draft, "RELOADING=1")
    draft.say(f"reloading: generation {number}")


def _notify(draft: Draft, state: str) -> None:
    """Tell the service manager, unless it still waits for the start: it would take the end of a reload for that."""
    if draft.state.phase is Phase.running:
        draft.do(Notify(state=state))


def _move(draft: Draft, reload: Reload, event: ReloadEvent, **facts: Any) -> Reload:
    moved = dataclasses.replace(reload, phase=reload_after(reload.phase, event), **facts)
    draft.set(reload=moved)
    return moved


def _import(draft: Draft, reload: Reload) -> Reload:
    templates = list(draft.state.templates(reload.new.number))
    if not reload.new.forks or any(template.serving for template in templates):
        return _move(draft, reload, ReloadEvent.imported)
    if not templates:
        draft.spawn(Role.template, reload.new.number)
    return reload


def _prove(draft: Draft, reload: Reload) -> Reload:
    canary = draft.state.children.get(reload.canary)
    if canary and canary.serving:
        settled_ms = draft.now_ms + draft.state.policy.reload_settle_ms
        return _move(draft, reload, ReloadEvent.proved, settled_ms=settled_ms)
    # The canary is an extra process: only one of them at a time.
    if canary is None and draft.state.extras == 0:
        born = starting.start_worker(draft, Role.worker, CANARY_SLOT, reload.new)
        if born:
            draft.set(reload=dataclasses.replace(reload, canary=born.incarnation))
    return reload


def _commit(draft: Draft, reload: Reload) -> Reload:
    canary = draft.state.children.get(reload.canary)
    if draft.now_ms < reload.settled_ms or canary is None or not canary.serving:
        return reload
    draft.set(generation=reload.new)
    draft.say(f"generation {reload.new.number} has proved itself; the others follow one by one")
    return _move(draft, reload, ReloadEvent.settled)


def _finish(draft: Draft, reload: Reload) -> None:
    number = reload.new.number
    # One that was stuck leaves when it can; nobody is to wait for that.
    workers = [child for child in draft.state.workers if not child.surged]
    left = [child for child in workers if child.outdated or child.generation != number]
    if left:
        return
    _move(draft, reload, ReloadEvent.replaced)
    _end(draft, reload, f"reloaded: generation {number} serves in all slots", ok=True)


def _fail(draft: Draft, reload: Reload, text: str) -> None:
    _move(draft, reload, ReloadEvent.fault)
    if reload.phase is ReloadPhase.rolling:
        draft.set(generation=reload.old)
    for child in list(draft.state.workers):
        if child.generation == reload.new.number and child.coming:
            draft.kill(child, "the reload failed", planned=True)
        elif child.incarnation == reload.canary and child.serving and reload.phase is not ReloadPhase.rolling:
            draft.drain(child, "the reload failed", draft.state.policy.drain_ms)
    rolling.failed_start(draft, "a reload failed")
    _end(draft, reload, f"not reloaded, generation {reload.old.number} stays: {text}", ok=False)


def _end(draft: Draft, reload: Reload, text: str, *, ok: bool) -> None:
    draft.set(reload=None)
    for child in list(draft.state.children.values()):
        unused = child.role is Role.template and child.generation != draft.state.generation.number
        if unused and not child.leaving:
            draft.drain(child, "its generation is over", TEMPLATE_LEAVES_MS)
    # What RELOADING began, READY ends, whether or not it was of use.
    _notify(draft, "READY=1")
    draft.say(text, logging.INFO if ok else logging.ERROR)
    for asker in reload.askers:
        draft.answer(asker, text, ok=ok)
