"""Everything a supervisor can do, one frozen value each: the only way out of the reducer. The shell performs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyrula_runtime.wire import Bury, Drain, Dump, Role, StandIn


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawn:
    """Make a process: of the template if `by_template` (its incarnation), else as a fresh interpreter."""

    incarnation: str
    role: Role
    slot: int
    generation: int
    by_template: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Send a message to a process; if it cannot take it, that is its loss: deadlines follow."""

    incarnation: str
    message: Drain | Dump | Bury | StandIn


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeStack:
    """Have the stack of a process that cannot answer, from outside: of one thread by its kernel id (0: the lane's)."""

    incarnation: str
    thread_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """Send SIGKILL to a process and its group."""

    incarnation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminate:
    """Send SIGTERM to a process: the backup of a Drain it may not read."""

    incarnation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Answer a command."""

    asker: int
    ok: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify:
    """Tell the service manager: fields of sd_notify, such as READY=1 or STATUS=...; `extend_ms` asks for more time."""

    state: str
    extend_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """Say a line about a change: level as in logging. `fields` are for those who read the log by machine."""

    level: int
    text: str
    fields: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Remember and show. `kind` is one of KINDS; `verdict`, of core.standstill or a cause of core.deaths, says more."""

    kind: str
    text: str
    slot: int = -1
    run_id: str = ""
    workflow: str = ""
    step: str = ""
    line: str = ""
    verdict: str = ""


KINDS = (
    "block",  # a lane stands still
    "surge",  # a worker was started beside one that is stuck
    "evacuation",  # the neighbours of a run that blocks were handed back
    "memory",  # a worker was killed for its memory
    "store_frozen",  # a worker was killed because it stood still with the store's write lock
    "death",
    "charge",
    "mark",  # that makes a suspect
    "quarantine",
    "start_failed",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockOver:
    """A lane that stood still goes on, or its process is dead: count how long it was."""

    for_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Quit:
    """Leave: everything that was to be done is done, or must not be waited for."""

    exit_code: int


Action = Spawn | Send | TakeStack | Kill | Terminate | Answer | Notify | Log | Incident | BlockOver | Quit
