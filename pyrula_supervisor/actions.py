"""Everything a supervisor can do, one frozen value each: the only way out of the reducer. The shell performs them."""

from __future__ import annotations

from dataclasses import dataclass

from pyrula_runtime.wire import Bury, Drain, Dump, Role


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
    message: Drain | Dump | Bury


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
    """Say a line about a change: level as in logging."""

    level: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Remember and show: `kind` is `block`, `death`, `start_failed`, `quarantine`."""

    kind: str
    text: str
    slot: int = -1
    run_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quit:
    """Leave: everything that was to be done is done, or must not be waited for."""

    exit_code: int


Action = Spawn | Send | Kill | Terminate | Answer | Notify | Log | Incident | Quit
