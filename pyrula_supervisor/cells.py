"""Cells: fresh workers that run one suspect each, alone, while suspects wait.

The store's count of suspects that wait comes with the clerk's `Queue`, and what a burial has just found with `Judged`.
Both are out of date as soon as a cell takes one, so every cell that came after the count was taken is taken off it. A
cell that leaves without having run anything, or that never starts, slows the next one down: perhaps what waits is
served by nobody here. One that dies of what it runs slows nobody: each such death is a charge or a mark, and of those
there are few.

A cell that has fallen silent takes no place from another, as one that is stuck does not: on a starved host the looks
that lead to its end may be long in coming, and all suspects would wait for that.

Of both kinds together there are never more than twice as many cells as workers. Where all of these are silent, suspects
wait until one runs again. The host has no CPU for one more process; and whichever was ended in favour of another would
leave its suspect, against which nothing is known, to begin again on the same host.
"""

from __future__ import annotations

from pyrula_runtime.wire import Judged, Queue, Role
from pyrula_supervisor import pace, starting
from pyrula_supervisor.draft import Draft
from pyrula_supervisor.model import NO_SLOT, Child, Pace
from pyrula_supervisor.tables import ChildState


def counted(draft: Draft, message: Queue) -> None:
    """The clerk has counted."""
    draft.set(suspects=message.counts.get("suspects", 0), suspects_ms=draft.now_ms)


def judged(draft: Draft, message: Judged) -> None:
    """A burial has made a suspect, or sent one back; so whoever is dead has run something."""
    draft.set(cell_pace=Pace())
    if message.suspect and not message.quarantined:
        draft.set(suspects=draft.state.suspects + 1)


def fill(draft: Draft) -> None:
    """Start the cells that are missing; `procs` of them at most, stuck ones apart."""
    state = draft.state
    if state.stopping or not state.suspects or not pace.is_due(state.cell_pace, draft.now_ms):
        return
    if any(child.state is ChildState.draining and not _has_worked(child) for child in state.cells):
        return  # what it means is seen at its end
    cells = [child for child in state.cells if not child.leaving]
    taking = sum(_takes_one(draft, child) for child in cells)
    useful = sum(not (child.stuck or _is_silent(draft, child)) for child in cells)
    room = min(state.procs - useful, 2 * state.procs - len(list(state.cells)))
    for _ in range(min(state.suspects - taking, room)):
        starting.start_worker(draft, Role.cell, NO_SLOT, state.generation)


def gone(draft: Draft, child: Child) -> None:
    """A cell is gone, and what it took with it, if that was among the counted."""
    if child.was_ready and child.ready_ms >= draft.state.suspects_ms:
        draft.set(suspects=max(0, draft.state.suspects - 1))
    if _has_worked(child):
        draft.set(cell_pace=Pace())
    else:
        draft.set(cell_pace=pace.failed(draft.state.cell_pace, draft.now_ms, draft.chance()))


def _has_worked(child: Child) -> bool:
    return child.report is not None and child.report.turns_done + child.report.turns_running > 0


def _takes_one(draft: Draft, child: Child) -> bool:
    """Whether a cell takes one of the suspects that were counted."""
    if child.coming or child.ready_ms >= draft.state.suspects_ms:
        return True
    if _is_silent(draft, child):
        return False  # it has taken one, though it may have had no time to say so
    return child.report is None or child.report.turns_running == 0


def _is_silent(draft: Draft, child: Child) -> bool:
    return child.silent_ms >= draft.state.policy.replace_after_ms
