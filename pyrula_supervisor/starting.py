"""What has to be started: the clerk, a worker for every slot that has none or a stuck one, and before it a template.

Nothing here remembers what was begun: each step looks at what there is and starts what is missing, unless its pace
forbids it yet. So a slot cannot be lost, whatever order its news come in.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyrula_runtime.wire import Role
from pyrula_supervisor import pace, surging
from pyrula_supervisor.draft import Draft
from pyrula_supervisor.model import Child, Generation, Slot
from pyrula_supervisor.options import Policy
from pyrula_supervisor.tables import ChildState

# Orders that a template may have before it: it forks one after another, and what its line has no room for would be
# lost, which looks like a template that does not listen.
FORKS_AT_ONCE = 4


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
            role = surging.role_in(shared[slot.number])
            born = start_worker(draft, role, slot.number, draft.state.generation)
            if born and role is Role.surge:
                surging.announce(draft, born)


def start_worker(draft: Draft, role: Role, slot: int, generation: Generation) -> Child | None:
    """Start a worker, or the template that it needs first; nothing is returned if it has to wait."""
    if not generation.forks:
        return draft.spawn(role, generation.number, slot)
    templates = list(draft.state.templates(generation.number))
    if template := next((each for each in templates if each.serving), None):
        if _orders(draft, template) >= FORKS_AT_ONCE:
            return None
        return draft.spawn(role, generation.number, slot, template.incarnation)
    if not templates and pace.is_due(draft.state.template_pace, draft.now_ms):
        draft.spawn(Role.template, generation.number)
    return None


def _orders(draft: Draft, template: Child) -> int:
    return sum(child.state is ChildState.asked for child in draft.state.forks_of(template.incarnation))


def _is_due(draft: Draft, slot: Slot, sharing: Iterable[Child]) -> bool:
    others = [child for child in sharing if child.incarnation != draft.state.canary]
    staying = [child for child in others if not child.leaving and not child.surged]
    held = any(not child.outdated for child in staying) or any(child.failing for child in others)
    if held or not pace.is_due(slot.pace, draft.now_ms):
        return False
    # A successor of a living worker is an extra process: only one of them at a time.
    return not staying or draft.state.extras == 0


def _keep_clerk(draft: Draft) -> None:
    alive = any(child.role is Role.clerk for child in draft.state.children.values())
    if not alive and pace.is_due(draft.state.clerk_pace, draft.now_ms):
        draft.spawn(Role.clerk, draft.state.generation.number)
