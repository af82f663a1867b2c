"""What the supervisor and its processes say to each other: one frozen message a packet, JSON, bounded in size.

The runtime owns this vocabulary, since the speaker does and a worker must run alone. A pair of `SOCK_SEQPACKET` sockets
keeps packets whole, so there is no framing; a packet that does not parse is a `WireError` and ends nobody but its
sender's credibility. Texts (stacks, tracebacks) are cut before they are sent, so that every message fits `MAX_PACKET`.
Fields may be added, never renamed; unknown fields are ignored, so that two generations understand each other during a
reload.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

import orjson

from pyrula_runtime.core.errors import PyrulaError

MAX_PACKET = 60_000
MAX_TEXT = 20_000
Value = TypeVar("Value")


class WireError(PyrulaError):
    """A packet that is no message of ours."""


class Role(StrEnum):
    """What a process is there for."""

    worker = "worker"
    surge = "surge"  # replaces a stuck worker's capacity for a while
    cell = "cell"  # runs one suspect, alone
    clerk = "clerk"  # store duties, no user code
    template = "template"  # imports the app once and forks the others


# from the supervisor


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The first packet to a new process: what it is and how it is to work. `options` are WorkerOptions by key."""

    role: Role
    incarnation: str
    slot: int
    generation: int
    supervisor_pid: int
    supervisor: str = "default"  # its name, for titles
    workflows: tuple[str, ...] = ()
    store_url: str = ""
    worker_id: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    log_format: str = "text"
    log_level: str = "INFO"
    warmup: str = ""  # module:function that a template calls once after the import
    after_fork: str = ""  # module:function that a worker calls before it serves


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """To the template: fork a child for this start; its socket comes with the packet (SCM_RIGHTS)."""

    start: Start


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Stop claiming, finish within the options' grace, hand back the rest, exit 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    """Send the lane's stack now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a supervisor knows of the end of a worker; `cause` is one of core.blame.Cause.

    `guilty` is the run whose code was found blocking, and `entries` the number of the lane's record at that moment: it
    counts only if the black box still says the same. `line` and `stack` are of that code.
    """

    cause: str
    in_cell: bool = False
    worker: str = ""
    pid: int = 0
    exit: str = ""
    guilty: str = ""
    entries: int = 0
    for_ms: int = 0
    line: str = ""
    stack: str = ""
    rss_bytes: int = 0
    limit_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bury:
    """To the clerk: this incarnation is dead; free all that it holds. Told again until `Buried` comes."""

    incarnation: str
    finding: Finding = Finding(cause="blameless")


class Stage(StrEnum):
    """How far the clerk is to stand in for a worker that lives and cannot speak."""

    renew = "renew"  # keep its locks alive
    hand_on = "hand_on"  # and give its shards to its neighbours
    evacuate = "evacuate"  # and hand back what it holds but for one run, and keep that one's lock alive
    over = "over"  # it speaks again, or is dead


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIn:
    """To the clerk: a worker is mute or silent. Told again while it is so. `keep` is the run not to be handed back."""

    incarnation: str
    stage: Stage
    keep: str = ""


# from its processes


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The process lives and has read its start."""

    incarnation: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """It serves; for a template: it can fork (`note` says what is special, such as native threads)."""

    incarnation: str
    serves: tuple[str, ...] = ()
    note: str = ""
    limits_ms: dict[str, int] = field(default_factory=dict)  # how long a workflow's code may block, where it is longer


@dataclass(frozen=True, slots=True, kw_only=True)
class CannotStart:
    """It will exit now and would do so again: wrong configuration, an app that fails to import, a refused store.

    `unsafe_template` says that only forking is out of the question (threads, sockets, children, a running loop).
    """

    incarnation: str
    reason: str
    traceback: str = ""
    exit_code: int = 78
    unsafe_template: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Forked:
    """From the template: the child of this incarnation has this pid."""

    incarnation: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How a worker is doing, sent about once a second."""

    incarnation: str
    turns_running: int
    turns_done: int
    capacity: int
    lane_lag_ms: float
    draining: bool
    store_ok: bool
    store_fault: str = ""
    loop_failed: str = ""
    shards: int = 0  # that it leases, of a store that has several


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """The lane makes no progress; sent again when more is known. `run_id` is empty for code of no run."""

    incarnation: str
    run_id: str
    workflow: str
    step: str
    for_s: float
    line: str
    stack: str
    gil_held: bool = False
    op_id: str = ""
    hint: str = ""  # which call blocks, and what to do instead


@dataclass(frozen=True, slots=True, kw_only=True)
class Unblocked:
    """The lane goes on."""

    incarnation: str
    after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Evacuated:
    """From a worker about itself, or from the clerk about a mute one: these runs were handed back, uncharged."""

    incarnation: str
    worker: str  # the incarnation that held them
    run_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """From the clerk: what the death of a worker meant for one run that it held."""

    incarnation: str
    worker: str  # the dead incarnation
    run_id: str
    workflow: str
    cause: str  # one of core.blame.Cause
    step: str = ""
    line: str = ""
    charged: int = 0
    marked: bool = False
    suspect: bool = False
    quarantined: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """Answer to `Dump`."""

    incarnation: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Buried:
    """From the clerk: nothing is held by this incarnation any more (after the second look too)."""

    incarnation: str
    run_ids: tuple[str, ...]
    final: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """From the clerk: the store's health and its queue, about every two seconds."""

    incarnation: str
    store_ok: bool
    store_url: str
    store_fault: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    pins: dict[str, int] = field(default_factory=dict)  # runs of pins that nobody serves, by `pin_text`


Message = (
    Start
    | Fork
    | Drain
    | Dump
    | Bury
    | StandIn
    | Hello
    | Ready
    | CannotStart
    | Forked
    | Report
    | Blocked
    | Unblocked
    | Evacuated
    | Judged
    | Stack
    | Buried
    | Queue
)

_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in Message.__args__}


def encode(message: Message) -> bytes:
    """A message as one packet. Raises WireError if it would not fit: texts are cut by `cut` before."""
    name = type(message).__name__
    try:
        packet = orjson.dumps({"is": name, **dataclasses.asdict(message)})
    except TypeError as error:
        raise WireError(f"a {name} holds what is no JSON: {error}") from error
    if len(packet) > MAX_PACKET:
        raise WireError(f"a {name} of {len(packet):,} bytes does not fit a packet of {MAX_PACKET:,}")
    return packet


def decode(packet: bytes) -> Message:
    """The message of a packet, each field of its type: who receives it need not doubt it. Raises WireError."""
    try:
        tree = orjson.loads(packet)
        message: Message = _message(_KINDS[tree.pop("is")], tree)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise WireError(f"a packet of {len(packet)} bytes is no message: {error!r}") from error
    return message


def _message(kind: type[Any], tree: dict[str, Any]) -> Any:
    known = (each for each in dataclasses.fields(kind) if each.name in tree)
    return kind(**{each.name: _READ[each.type](tree[each.name]) for each in known})


def _a(kind: type[Value]) -> Callable[[Any], Value]:
    def read(value: Any) -> Value:
        if type(value) is not kind:
            raise ValueError(f"{value!r} is no {kind.__name__}")
        return value

    return read


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is no number")
    return float(value)


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(_a(str), _a(list)(value)))


def _counts(value: Any) -> dict[str, int]:
    return {key: _a(int)(count) for key, count in _a(dict)(value).items()}


# How a field is read, by its annotation.
_READ: dict[Any, Callable[[Any], Any]] = {
    "str": _a(str),
    "int": _a(int),
    "bool": _a(bool),
    "float": _number,
    "Role": Role,
    "Stage": Stage,
    "Start": lambda value: _message(Start, _a(dict)(value)),
    "Finding": lambda value: _message(Finding, _a(dict)(value)),
    "tuple[str, ...]": _texts,
    "dict[str, Any]": _a(dict),
    "dict[str, int]": _counts,
}


def pin_text(workflow: str, version: str) -> str:
    """A workflow's name and a version as one text; no name holds an @."""
    return f"{workflow}@{version}"


def pin_of(text: str) -> tuple[str, str]:
    """The name and the version back."""
    workflow, _, version = text.partition("@")
    return workflow, version


def cut(text: str) -> str:
    """A text that fits a packet: its end, where stacks and tracebacks say what matters; what is no text becomes `?`."""
    plain = text.encode(errors="replace").decode()
    return plain if len(plain) <= MAX_TEXT // 4 else "…" + plain[-MAX_TEXT // 4 :]


def cut_behind(text: str) -> str:
    """The same of what begins with what matters, as the innermost call of a stack from outside does: whole lines."""
    if len(text) <= MAX_TEXT // 4:
        return cut(text)
    return cut(text[: text.rfind("\n", 0, MAX_TEXT // 4) + 1 or MAX_TEXT // 4])
