"""What can be known of a worker's end. Whoever looks writes it down in these words; core.blame says what it means."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum


class Cause(StrEnum):
    """Why a worker ended, as far as blame goes."""

    loop_blocked = "loop_blocked"  # killed because one turn's code kept the lane, or the GIL, past the limit
    crashed = "crashed"  # a signal of its own doing: SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL
    exited = "exited"  # os._exit, or an exit code that is none of ours
    out_of_memory = "out_of_memory"  # with evidence: a counter of the kernel, or its peak beside the limit
    store_frozen = "store_frozen"  # killed because it stood still with the store's write lock
    killed = "killed"  # SIGKILL by we do not know whom, or an end that nobody saw
    blameless = "blameless"  # a stop, a deploy, a decision of ours that has nothing to do with its runs


# how an exit begins, in words, of a worker without a supervisor whose own timer ran out: the GIL never came back, or
# it was stopped for as long; so it counts as killed
ENDED_ITSELF = "ended itself"
# ends that a process brings on itself
OWN_DOING = frozenset({Cause.crashed, Cause.exited, Cause.out_of_memory})
# ends that come from outside and say little of who was there
FROM_OUTSIDE = frozenset({Cause.killed, Cause.store_frozen})


@dataclass(frozen=True, slots=True, kw_only=True)
class Executing:
    """Code of a run that had a thread when its worker ended. `op_id` and `step` are empty in a workflow's body."""

    run_id: str
    op_id: str = ""
    step: str = ""
    for_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of one death, for people; unknown is empty or 0. `line` is the innermost of the user's code."""

    at_ms: int  # wall clock
    cause: Cause
    worker: str
    pid: int = 0
    exit: str = ""  # in words
    op_id: str = ""
    step: str = ""
    for_ms: int = 0  # how long that code had run
    line: str = ""
    stack: str = ""
    rss_bytes: int = 0
    limit_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """The end of a worker that held runs.

    `executing` is what its threads executed (None: unknown), `in_flight` all runs whose turns it had begun. `guilty` is
    the run whose code was found blocking, if that is the cause and the black box still says so after the death; None:
    some thread kept the GIL, and nobody could tell whose.
    """

    cause: Cause
    in_cell: bool
    executing: tuple[Executing, ...] | None
    in_flight: Collection[str]
    evidence: Evidence
    guilty: str | None = ""
