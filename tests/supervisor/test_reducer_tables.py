"""The three tables, cell by cell: what is written here by hand must be what the product does, and nothing more."""

from __future__ import annotations

import itertools

import pytest

from pyrula_runtime.core.errors import IllegalTransition
from pyrula_supervisor.tables import (
    CHILD,
    COMING,
    LEAVING,
    OURS,
    PHASE,
    RELOAD,
    SERVING,
    ChildEvent,
    ChildState,
    Phase,
    PhaseEvent,
    ReloadEvent,
    ReloadPhase,
    child_after,
    diagram,
    phase_after,
    reload_after,
)

# For each state, where spawned, ready, block, unblock, drain, kill and exit lead; "-" is ignored, "!" is our mistake.
CHILDREN = """
    asked     starting  ready  -        -      draining  killed  gone
    starting  -         ready  -        -      draining  killed  gone
    ready     ready     -      blocked  -      draining  killed  gone
    blocked   -         -      blocked  ready  draining  killed  gone
    draining  draining  -      -        -      !         killed  gone
    killed    killed    -      -        -      !         killed  gone
    gone      -         -      -        -      !         !       -
"""
# For each phase, where enough, stop, hurry and over lead.
PHASES = """
    starting  running  draining  killing  !
    running   !        draining  !        !
    draining  !        !         killing  ended
    killing   !        !         !        ended
    ended     !        !         !        !
"""
# For each phase, where imported, proved, settled, replaced and fault lead.
RELOADS = """
    importing  proving  !         !        !     failed
    proving    !        settling  !        !     failed
    settling   !        !         rolling  !     failed
    rolling    !        !         !        done  failed
    done       !        !         !        !     !
    failed     !        !         !        !     !
"""


def rows(table: str) -> dict[str, list[str]]:
    return {line.split()[0]: line.split()[1:] for line in table.strip().split("\n")}


def test_every_cell_of_the_children() -> None:
    for state, row in rows(CHILDREN).items():
        for event, expected in zip(ChildEvent, row, strict=True):
            if expected == "!":
                with pytest.raises(IllegalTransition, match=f"a child that is {state} cannot be told to {event}"):
                    child_after(ChildState(state), event)
            else:
                assert (child_after(ChildState(state), event) or "-") == expected, (state, event)


@pytest.mark.parametrize(
    ("after", "states", "events", "table"),
    [(phase_after, Phase, PhaseEvent, PHASES), (reload_after, ReloadPhase, ReloadEvent, RELOADS)],
)
def test_every_cell_of_the_phases(after, states, events, table) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    for state, row in rows(table).items():
        for event, expected in zip(events, row, strict=True):
            if expected == "!":
                with pytest.raises(IllegalTransition, match=state):
                    after(states(state), event)
            else:
                assert after(states(state), event) == expected, (state, event)


def test_the_walk_is_of_all_states() -> None:
    for table, states in ((CHILDREN, ChildState), (PHASES, Phase), (RELOADS, ReloadPhase)):
        assert list(rows(table)) == list(states)


def test_every_way_ends() -> None:
    for table, last in ((CHILD, {"gone"}), (PHASE, {"ended"}), (RELOAD, {"done", "failed"})):
        states = {state for state, _ in table}
        for state in states:
            reached, fresh = {state}, {state}
            while fresh:
                fresh = {after for (before, _), after in table.items() if before in fresh} - reached
                reached |= fresh
            assert reached & last, state


def test_a_child_is_coming_serving_leaving_or_gone() -> None:
    groups = [COMING, SERVING, LEAVING, {ChildState.gone}]
    assert frozenset().union(*groups) == set(ChildState)
    assert all(not a & b for a, b in itertools.combinations(groups, 2))
    assert {ChildEvent.drain, ChildEvent.kill} == OURS


def test_the_diagram_shows_every_cell_that_leads_elsewhere() -> None:
    lines = diagram().split("\n")
    assert lines[:3] == ["stateDiagram-v2", "    [*] --> asked", "    asked --> starting: spawned"]
    assert lines[-1] == "    gone --> [*]"
    assert len(lines) == 3 + sum(before != after for (before, _), after in CHILD.items())
