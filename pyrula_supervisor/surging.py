"""Surges: workers that are started beside those that are stuck, so that the capacity is whole.

`starting` makes them like any successor, in the same slot. A surge becomes the slot's worker when the stuck one is on
its way out: its lane went round (then `rolling` drains it), or it was killed. There are never more stuck workers with
somebody beside them than there are slots; beyond that, the one that is stuck longest is treated as at its limit.
"""

from __future__ import annotations

import logging

from pyrula_runtime.wire import Role
from pyrula_supervisor import exits, sentences
from pyrula_supervisor.actions import Incident
from pyrula_supervisor.blocks import whose_of
from pyrula_supervisor.draft import Draft
from pyrula_supervisor.model import Child


def role_in(sharing: list[Child]) -> Role:
    """What a new worker of a slot is, beside those that have it now."""
    return Role.surge if any(child.surged and not child.leaving for child in sharing) else Role.worker


def announce(draft: Draft, surge: Child) -> None:
    """Tell people of a surge that is being started."""
    text = f"a surge worker is started in slot {surge.slot}, whose lane is stuck"
    draft.say(text, logging.WARNING, event="surge:started", slot=surge.slot)
    draft.do(Incident(kind="surge", text=text, slot=surge.slot))


def settle(draft: Draft) -> None:
    """Make surges whose slots are theirs now plain workers, and bound how many there are."""
    for sharing in draft.state.by_slot().values():
        if not any(child.surged and not child.leaving for child in sharing):
            for child in sharing:
                if child.role is Role.surge and not child.leaving:
                    draft.change(child, role=Role.worker)
    _bound(draft)


def _bound(draft: Draft) -> None:
    stuck = [child for child in draft.state.workers if child.surged and child.stuck and not child.leaving]
    stuck = [child for child in stuck if child.sentence is None and child.seen]
    stuck.sort(key=lambda child: child.seen.stuck_ms if child.seen else 0, reverse=True)
    for child in stuck[: max(0, len(stuck) - draft.state.procs)]:
        if event := child.seen:
            whose = whose_of(event.run_id, event.workflow, event.step)
            lasted = exits.lasted(event.stuck_ms)
            why = f"{whose} blocked it for {lasted}, longest of more stuck workers than there are slots"
            sentences.blocked_too_long(draft, child, why)
