"""The judgement of the supervisor: `(state, event, seed) -> (state, actions)`, and nothing else.

Each step has two halves. First the event is written down, by its kind. Then the state is looked at as a whole, subject
by subject, and what is missing is done: what is overdue is ended, what is outdated is replaced, an empty slot is
filled, the dead are told to the clerk, an end is taken further. Because the second half looks at what there is and not
at what has just come, it does not matter in which order the news arrive, or that some of them never do.

`seed` is chance from outside, 16 bytes: identities of new processes and jitter are drawn from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyrula_supervisor import (
    blocks,
    burials,
    cells,
    commands,
    deadlines,
    endings,
    hearing,
    reloading,
    rolling,
    sentences,
    standing,
    starting,
    stopping,
    telling,
)
from pyrula_supervisor.actions import Action, Kill
from pyrula_supervisor.draft import Draft
from pyrula_supervisor.events import (
    DumpAsked,
    Event,
    Exited,
    LaneSeen,
    ReloadAsked,
    RestartAsked,
    Said,
    ScaleAsked,
    Spawned,
    SpawnFailed,
    StopAsked,
    Tick,
    Weighed,
)
from pyrula_supervisor.model import State
from pyrula_supervisor.options import Policy
from pyrula_supervisor.tables import ChildEvent, ChildState, Phase


def begin(policy: Policy, now_ms: int, seed: bytes) -> tuple[State, tuple[Action, ...]]:
    """The first state of a supervisor, and the first processes to make."""
    state = State(
        policy=policy,
        started_ms=now_ms,
        generation=starting.generation_of(policy, 1),
        procs=policy.procs,
        slots=starting.slots(policy.procs),
    )
    draft = Draft(state, now_ms, seed)
    _settle(draft, ticked=False)
    return draft.state, tuple(draft.actions)


def step(state: State, event: Event, seed: bytes) -> tuple[State, tuple[Action, ...]]:
    """What an event makes of a state, and what is to be done about it."""
    if state.phase is Phase.ended:
        return state, ()
    draft = Draft(state, event.now_ms, seed)
    ticked = isinstance(event, Tick)
    if isinstance(event, Tick):
        if deadlines.slept(draft, event):
            return draft.state, tuple(draft.actions)
    else:
        _RECORD[type(event)](draft, event)
    _settle(draft, ticked=ticked)
    return draft.state, tuple(draft.actions)


def _settle(draft: Draft, *, ticked: bool) -> None:
    if ticked:
        deadlines.judge(draft)
    # The dead first: their runs wait.
    standing.tell(draft)
    burials.tell(draft, again=ticked)
    reloading.progress(draft, ticked=ticked)
    rolling.roll(draft)
    starting.fill(draft)
    cells.fill(draft)
    telling.tell(draft)
    stopping.progress(draft, ticked=ticked)


def _spawned(draft: Draft, event: Spawned) -> None:
    child = draft.state.children.get(event.incarnation)
    if child is None:
        # Given up before it came: nobody would ever look after it.
        draft.do(Kill(incarnation=event.incarnation))
        return
    draft.move(child, ChildEvent.spawned, pid=event.pid)
    if child.state is ChildState.killed:
        draft.do(Kill(incarnation=event.incarnation))


_RECORD: Mapping[type[Any], Callable[[Draft, Any], None]] = {
    Spawned: _spawned,
    SpawnFailed: endings.spawn_failed,
    Exited: endings.exited,
    Said: hearing.said,
    LaneSeen: blocks.seen,
    Weighed: sentences.weighed,
    StopAsked: stopping.asked,
    ReloadAsked: reloading.asked,
    ScaleAsked: commands.scale_asked,
    RestartAsked: rolling.restart_asked,
    DumpAsked: commands.dump_asked,
}
