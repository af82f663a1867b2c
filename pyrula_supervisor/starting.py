"""What has to be started: the clerk, a worker for every slot that has none, and before it a template that forks it.

Nothing here remembers what was begun: each step looks at what there is and starts what is missing, unless its pace
forbids it yet. So a slot cannot be lost, whatever order its news come in.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable

from pyrula_runtime.wire import CannotStart, Role
from pyrula_supervisor import pace, stopping
from pyrula_supervisor.draft import Draft
from pyrula_supervisor.model import Child, Generation, Slot
from pyrula_supervisor.options import Policy
from pyrula_supervisor.tables import Phase

# It said that it will exit now; if it cannot do even that, it is killed.
CANNOT_START_MS = 2_000
BAD_SETUP = 78


def generation_of(policy: Policy, number: int) -> Generation:
    """A generation, and how its workers are to be made as far as is known before its template has tried."""
    if policy.start_method == "spawn":
        return Generation(number=number, forks=False, reason="asked for by start_method")
    if policy.no_template:
        return Generation(number=number, forks=False, reason=policy.no_template)
    return Generation(number=number, forks=True)


def slots(count: int) -> tuple[Slot, ...]:
    """So many fresh slots."""
    return tuple(Slot(number=number) for number in range(count))


def fill(draft: Draft) -> None:
    """Start what is missing. Never after a stop was asked for."""
    if draft.state.stopping:
        return
    _keep_clerk(draft)
    shared = draft.state.by_slot()
    for slot in draft.state.slots:
        if _is_due(draft, slot, shared[slot.number]):
            start_worker(draft, slot.number, draft.state.generation)


def start_worker(draft: Draft, slot: int, generation: Generation) -> Child | None:
    """Start a worker, or the template that it needs first; then nothing is returned."""
    if not generation.forks:
        return draft.spawn(Role.worker, generation.number, slot)
    templates = list(draft.state.templates(generation.number))
    for template in templates:
        if template.serving:
            return draft.spawn(Role.worker, generation.number, slot, template.incarnation)
    if not templates and pace.is_due(draft.state.template_pace, draft.now_ms):
        draft.spawn(Role.template, generation.number)
    return None


def cannot_start(draft: Draft, child: Child, message: CannotStart) -> None:
    """A process gives up: wait for its end, unless that decides the whole start."""
    if child.leaving:
        return
    if message.unsafe_template and child.role is Role.template and draft.state.policy.start_method == "auto":
        _spawn_instead(draft, child, message.reason)
        return
    trace = f"\n{message.traceback}" if message.traceback else ""
    text = f"{child.title} cannot start: {message.reason}"
    if draft.state.phase is Phase.starting and not draft.state.ever_ready and message.exit_code == BAD_SETUP:
        stopping.give_up(draft, BAD_SETUP, text + trace)
        return
    draft.say(text + trace, logging.ERROR)
    # It has said what there is to say, so its stack would add nothing.
    draft.change(child, cause=message.reason, deadline_ms=draft.now_ms + CANNOT_START_MS, dumped=True)


def _is_due(draft: Draft, slot: Slot, sharing: Iterable[Child]) -> bool:
    reload = draft.state.reload
    canary = reload.canary if reload else ""
    staying = [child for child in sharing if not child.leaving and child.incarnation != canary]
    if any(not child.outdated for child in staying) or not pace.is_due(slot.pace, draft.now_ms):
        return False
    # A successor of a living worker is an extra process: only one of them at a time.
    return not staying or sum(1 for _ in draft.state.workers) <= draft.state.procs


def _keep_clerk(draft: Draft) -> None:
    alive = any(child.role is Role.clerk for child in draft.state.children.values())
    if not alive and pace.is_due(draft.state.clerk_pace, draft.now_ms):
        draft.spawn(Role.clerk, draft.state.generation.number)


def _spawn_instead(draft: Draft, template: Child, reason: str) -> None:
    """The app cannot be forked: its workers become fresh interpreters, which costs time and memory only."""
    draft.say(f"workers start as fresh interpreters, not as forks of a template: {reason}", logging.WARNING)
    draft.drain(template, reason, CANNOT_START_MS)
    state = draft.state
    if state.generation.number == template.generation:
        draft.set(generation=dataclasses.replace(state.generation, forks=False, reason=reason))
    if state.reload and state.reload.new.number == template.generation:
        new = dataclasses.replace(state.reload.new, forks=False, reason=reason)
        draft.set(reload=dataclasses.replace(state.reload, new=new))
