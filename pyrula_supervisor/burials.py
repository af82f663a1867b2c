"""Every dead worker is told to the clerk until the clerk has freed all that it held.

A dead incarnation is kept here from its end until `Buried(final)`. It is told at once if a clerk is ready, to every new
clerk again, and again when nothing was heard for a while: packets to a busy clerk may be dropped, and telling twice
does no harm. What is still untold when the supervisor leaves is found by the next one from the black boxes.
"""

from __future__ import annotations

import dataclasses

from pyrula_runtime.wire import Buried, Bury, Finding, Judged
from pyrula_supervisor import findings, pace
from pyrula_supervisor.actions import Send
from pyrula_supervisor.draft import Draft
from pyrula_supervisor.model import NEVER, NO_SLOT, Burial, State

# The clerk looks twice, a second apart; only a lost packet or a lost store takes longer.
TELL_AGAIN_MS = 5_000


def add(draft: Draft, incarnation: str, finding: Finding = findings.BLAMELESS, *, clean: bool = False) -> None:
    """An incarnation is dead, of what was found."""
    child = draft.state.children.get(incarnation)
    slot = child.slot if child and child.was_ready else NO_SLOT
    draft.set(burials={**draft.state.burials, incarnation: Burial(clean=clean, slot=slot, finding=finding)})


def explained(draft: Draft, message: Judged) -> None:
    """A run is taken out for a worker's end: then it was not the slot's fault, and is no sign of a crash loop."""
    burial = draft.state.burials.get(message.worker)
    slot = draft.slot(burial.slot) if burial else None
    if burial and slot and (message.charged or message.suspect):
        draft.mark(slot.number, pace=pace.forgiven(slot.pace, draft.now_ms))
        draft.set(burials={**draft.state.burials, message.worker: dataclasses.replace(burial, slot=NO_SLOT)})


def buried(draft: Draft, message: Buried) -> None:
    """A clerk has looked at what a dead incarnation held; it may itself be gone by now."""
    burials = dict(draft.state.burials)
    if message.incarnation not in burials:
        return
    if message.final:
        del burials[message.incarnation]
    else:
        burials[message.incarnation] = dataclasses.replace(
            burials[message.incarnation], looked=True, told_ms=draft.now_ms
        )
    draft.set(burials=burials)


def forget_told(draft: Draft) -> None:
    """The clerk is dead: all it was told is to be told to the next."""
    draft.set(burials={name: dataclasses.replace(each, told_ms=NEVER) for name, each in draft.state.burials.items()})


def tell(draft: Draft, *, again: bool) -> None:
    """Tell the clerk what it was not told, and if `again`, what it has been silent about for too long."""
    clerk = draft.state.clerk
    if clerk is None or not clerk.serving:
        return
    due = [
        name
        for name, each in draft.state.burials.items()
        if each.told_ms == NEVER or (again and draft.now_ms - each.told_ms >= TELL_AGAIN_MS)
    ]
    for name in due:
        message = Bury(incarnation=name, finding=draft.state.burials[name].finding)
        draft.do(Send(incarnation=clerk.incarnation, message=message))
    if due:
        told = {name: dataclasses.replace(draft.state.burials[name], told_ms=draft.now_ms) for name in due}
        draft.set(burials={**draft.state.burials, **told})


def are_open(state: State) -> bool:
    """Whether a dead worker may still hold something in the store."""
    return any(not (each.clean and each.looked) for each in state.burials.values())
