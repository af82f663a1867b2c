"""What can become of a child, of the supervisor and of a reload: one table each, and everything absent is decided.

A process speaks when it likes, so a message that finds no cell changes nothing (a `Ready` that was under way when the
child was killed). What the supervisor itself decides must find its cell: `drain` for a child that is killed already
would be a mistake of ours, and raises. The diagrams in README are printed from these tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from pyrula_runtime.core.errors import IllegalTransition


class ChildState(StrEnum):
    """Where a process stands."""

    asked = "asked"  # to be made; nobody has seen it yet
    starting = "starting"  # it exists
    ready = "ready"  # it serves
    blocked = "blocked"  # it serves, but says that its lane makes no progress
    draining = "draining"  # it is to finish what it has and leave
    killed = "killed"  # SIGKILL was sent
    gone = "gone"  # reaped, or never made


class ChildEvent(StrEnum):
    """What can happen to a process."""

    spawned = "spawned"  # it exists
    ready = "ready"  # it says so
    block = "block"  # it says so
    unblock = "unblock"  # it says so
    drain = "drain"  # we ask it to leave, or it leaves by itself
    kill = "kill"  # we kill it
    exit = "exit"  # it was reaped, could not be made, or never came


class Phase(StrEnum):
    """Where the supervisor stands."""

    starting = "starting"  # not enough workers have been ready yet
    running = "running"
    draining = "draining"  # a stop was asked for: nothing new is started
    killing = "killing"  # in a hurry: everything is killed, and only its end is waited for
    ended = "ended"


class PhaseEvent(StrEnum):
    """What moves the supervisor."""

    enough = "enough"  # min_ready workers are ready
    stop = "stop"  # the first signal, or the command
    hurry = "hurry"  # the second signal, or nothing can ever start
    over = "over"  # all processes are gone, or must not be waited for any longer


class ReloadPhase(StrEnum):
    """Where a reload stands."""

    importing = "importing"  # its template is being made
    proving = "proving"  # its canary is being made
    settling = "settling"  # its canary is ready and has to stay alive
    rolling = "rolling"  # the others are replaced one by one
    done = "done"
    failed = "failed"  # the old generation stays


class ReloadEvent(StrEnum):
    """What moves a reload."""

    imported = "imported"  # its template is ready, or it has none
    proved = "proved"  # its canary is ready
    settled = "settled"  # its canary has lived long enough
    replaced = "replaced"  # no worker of another generation is left
    fault = "fault"  # one of its processes could not start or died too soon, or a stop was asked for


_S, _E = ChildState, ChildEvent

CHILD: Mapping[tuple[ChildState, ChildEvent], ChildState] = {
    (_S.asked, _E.spawned): _S.starting,
    # Its own message may overtake the news of its birth.
    (_S.asked, _E.ready): _S.ready,
    (_S.asked, _E.drain): _S.draining,
    (_S.asked, _E.kill): _S.killed,
    (_S.asked, _E.exit): _S.gone,
    (_S.starting, _E.ready): _S.ready,
    (_S.starting, _E.drain): _S.draining,
    (_S.starting, _E.kill): _S.killed,
    (_S.starting, _E.exit): _S.gone,
    (_S.ready, _E.spawned): _S.ready,
    (_S.ready, _E.block): _S.blocked,
    (_S.ready, _E.drain): _S.draining,
    (_S.ready, _E.kill): _S.killed,
    (_S.ready, _E.exit): _S.gone,
    (_S.blocked, _E.block): _S.blocked,
    (_S.blocked, _E.unblock): _S.ready,
    (_S.blocked, _E.drain): _S.draining,
    (_S.blocked, _E.kill): _S.killed,
    (_S.blocked, _E.exit): _S.gone,
    (_S.draining, _E.spawned): _S.draining,
    (_S.draining, _E.kill): _S.killed,
    (_S.draining, _E.exit): _S.gone,
    (_S.killed, _E.spawned): _S.killed,
    (_S.killed, _E.kill): _S.killed,
    (_S.killed, _E.exit): _S.gone,
}

_P, _Q = Phase, PhaseEvent

PHASE: Mapping[tuple[Phase, PhaseEvent], Phase] = {
    (_P.starting, _Q.enough): _P.running,
    (_P.starting, _Q.stop): _P.draining,
    (_P.starting, _Q.hurry): _P.killing,
    (_P.running, _Q.stop): _P.draining,
    (_P.draining, _Q.hurry): _P.killing,
    (_P.draining, _Q.over): _P.ended,
    (_P.killing, _Q.over): _P.ended,
}

_R, _F = ReloadPhase, ReloadEvent

RELOAD: Mapping[tuple[ReloadPhase, ReloadEvent], ReloadPhase] = {
    (_R.importing, _F.imported): _R.proving,
    (_R.importing, _F.fault): _R.failed,
    (_R.proving, _F.proved): _R.settling,
    (_R.proving, _F.fault): _R.failed,
    (_R.settling, _F.settled): _R.rolling,
    (_R.settling, _F.fault): _R.failed,
    (_R.rolling, _F.replaced): _R.done,
    (_R.rolling, _F.fault): _R.failed,
}

COMING = frozenset({ChildState.asked, ChildState.starting})
SERVING = frozenset({ChildState.ready, ChildState.blocked})
LEAVING = frozenset({ChildState.draining, ChildState.killed})
OURS = frozenset({ChildEvent.drain, ChildEvent.kill})


def child_after(state: ChildState, event: ChildEvent) -> ChildState | None:
    """Where `event` leads, or None if it is to be ignored. Raises IllegalTransition for a mistake of ours."""
    found = CHILD.get((state, event))
    if found is None and event in OURS:
        raise IllegalTransition(f"a child that is {state} cannot be told to {event}")
    return found


def phase_after(phase: Phase, event: PhaseEvent) -> Phase:
    """Where `event` leads. Raises IllegalTransition."""
    try:
        return PHASE[phase, event]
    except KeyError:
        raise IllegalTransition(f"a supervisor that is {phase} cannot {event}") from None


def reload_after(phase: ReloadPhase, event: ReloadEvent) -> ReloadPhase:
    """Where `event` leads. Raises IllegalTransition."""
    try:
        return RELOAD[phase, event]
    except KeyError:
        raise IllegalTransition(f"a reload that is {phase} cannot have {event}") from None


def diagram() -> str:
    """The table of children as a Mermaid state diagram, for README."""
    lines = ["stateDiagram-v2", "    [*] --> asked"]
    lines += [f"    {source} --> {target}: {event}" for (source, event), target in CHILD.items() if source != target]
    return "\n".join([*lines, "    gone --> [*]"])
