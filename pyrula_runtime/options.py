"""Every option of Pyrula once: name, default, unit, range and meaning, for constructor, flag, environment and manual.

An option is a field of a frozen dataclass. The field's metadata says the rest, a table is read off the fields, and
everything else is generated from the table: flags, variable names, help, parsing, validation. So an option cannot be
accepted in one place and unknown in another, and all faults of a start are told together instead of one per attempt.

A value comes from the caller (a flag, an argument), else from the environment, else it is the default. An empty
variable counts as unset, because compose files write `${NAME:-}`; an empty flag is a fault. Numbers must be finite and
within their range; the ranges are wide, so that they refuse only what is absurd.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from pyrula_runtime.core.errors import ConfigurationError

Value = int | float | str | None
Kind = type[int] | type[float] | type[str]
Isolation = Literal["lane", "turn"]
ISOLATIONS: tuple[str, ...] = get_args(Isolation)
Replay = Literal["when-resumed", "always"]
REPLAYS: tuple[str, ...] = get_args(Replay)

INFINITE = float("inf")
_OBJECT = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")
HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
MONTH_S = 30 * DAY_S
CENTURY_S = 36_525 * DAY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option: what constructor, flag, environment and manual say about it."""

    name: str  # where it stands in its options object: "lock_ttl", "poison.max_retries"
    help: str
    kind: Kind
    default: Value
    flag: str  # empty where there is none: secrets must not show in a list of processes
    env: str
    unit: str = ""
    low: float = -INFINITE
    high: float = INFINITE
    choices: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The name as one identifier (`poison_max_retries`): keyword of `from_env`, parameter of a command."""
        return self.name.replace(".", "_")

    @property
    def field(self) -> str:
        """The name without its group (`max_retries`): the attribute of its own dataclass."""
        return self.name.rpartition(".")[2]

    @property
    def title(self) -> str:
        """The name in every spelling that whoever set it may have used."""
        return f"{self.name} ({', '.join(filter(None, (self.flag, self.env)))})"

    @property
    def allowed(self) -> str:
        """What a value must be, in words."""
        if self.kind is str:
            return f"one of {', '.join(self.choices)}" if self.choices else "text that is not empty"
        number = "a whole number" if self.kind is int else "a number"
        return f"{number} from {self.low:.12g} to {self.high:.12g} {self.unit}".rstrip()

    def parse(self, text: str) -> Value:
        """What the text of a flag or variable means; text without a meaning comes back as it is, for `fault`."""
        try:
            return self.kind(text)
        except ValueError:
            return text

    def fault(self, value: object) -> str | None:
        """One sentence if the value is not allowed."""
        return None if self._admits(value) else f"{self.title} is {value!r}, but must be {self.allowed}"

    def _admits(self, value: object) -> bool:
        if value is None:
            return self.default is None
        if isinstance(value, str):
            return self.kind is str and (value in self.choices if self.choices else bool(value.strip()))
        # Python takes True for 1, a reader does not. NaN is in no range, infinity beyond every one.
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return self.kind in (float, type(value)) and self.low <= value <= self.high


def option(default: Value, meaning: str, *, shown: bool = True, **details: Any) -> Any:
    """Field of an options dataclass; flag, variable and kind follow from name and default unless given."""
    return field(default=default, repr=shown, metadata={"help": meaning, "kind": type(default), **details})


def table_of(cls: type, prefix: str = "") -> tuple[Option, ...]:
    """Read the options of a dataclass off those of its fields that were made by `option`."""
    return tuple(
        Option(**{**_spelled(prefix + each.name), "default": each.default, **each.metadata})
        for each in fields(cls)
        if each.metadata
    )


def _spelled(name: str) -> dict[str, Any]:
    words = name.replace(".", "_")
    return {"name": name, "flag": "--" + words.replace("_", "-"), "env": "PYRULA_" + words.upper()}


def given(table: Iterable[Option], environ: Mapping[str, str], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The values of all options by key, from the caller, else the environment, else the default; not yet checked."""
    values: dict[str, Any] = {}
    for each in table:
        value = overrides.get(each.key)
        if value is None:
            value = environ.get(each.env) or None
        values[each.key] = each.default if value is None else each.parse(value) if isinstance(value, str) else value
    if unknown := overrides.keys() - values.keys():
        raise TypeError(f"no such option: {', '.join(sorted(unknown))}")
    return values


def faults_in(table: Iterable[Option], values: Mapping[str, Any]) -> dict[str, str]:
    """The faults of single values, one sentence each, by the option's key."""
    return {each.key: fault for each in table if (fault := each.fault(values[each.key]))}


def refuse(faults: Iterable[str]) -> None:
    """Raise all the faults as one `ConfigurationError`, if there are any."""
    if found := tuple(faults):
        raise ConfigurationError(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoisonOptions:
    """How often a run may block or kill its workers before it is quarantined."""

    max_retries: int = option(
        3, "Charges a run is forgiven; the next one quarantines it.", unit="charges", low=0, high=1000
    )
    retry_ttl_s: float = option(3600.0, "How long a charge or mark counts.", unit="s", low=1, high=MONTH_S)

    def __post_init__(self) -> None:
        """Refuse what is absurd."""
        refuse(faults_in(_POISON, {each.key: getattr(self, each.field) for each in _POISON}).values())


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How a worker runs: capacity, locks, polling, blame, drain and shards. Durations are in seconds."""

    max_concurrent_turns: int = option(
        50,
        "How many turns one worker process runs at once.",
        unit="turns",
        low=1,
        high=100_000,
        flag="--max-concurrent-runs",
    )
    isolation: Isolation = option(
        "lane",
        "Where async turns run: together on one lane, or each turn on a thread and event loop of its own.",
        choices=ISOLATIONS,
    )
    codec: str | None = option(
        None,
        "Codec (module:attribute) that payloads pass through on their way to the store and back; unset, none.",
        kind=str,
    )
    replay: Replay = option(
        "when-resumed",
        "When runs are replayed from their journal: as they are resumed, or always, after each commit, so that tests "
        "find code that does not repeat itself.",
        choices=REPLAYS,
    )
    lock_ttl: float = option(30.0, "How long a claim may write without being renewed.", unit="s", low=1, high=DAY_S)
    orphan_scan_interval: float = option(
        60.0, "How often to look for runs whose whole host is gone.", unit="s", low=0.1, high=DAY_S
    )
    timer_poll_interval_s: float = option(
        5.0, "The longest pause between two looks for due timers.", unit="s", low=0.01, high=HOUR_S
    )
    schedule_poll_interval_s: float = option(
        30.0, "The longest pause between two looks for due schedules.", unit="s", low=0.01, high=HOUR_S
    )
    poison: PoisonOptions = field(default_factory=PoisonOptions)
    block_warn: float = option(
        2.0, "How long code may block a lane before it is reported.", unit="s", low=0.1, high=HOUR_S
    )
    replace_after: float = option(
        5.0,
        "How long a lane may be blocked before another worker process takes its place.",
        unit="s",
        low=0.1,
        high=HOUR_S,
    )
    evacuate_after: float | None = option(
        None,
        "How long a lane may be blocked before its other turns are handed back; unset, as long as lock_ttl.",
        kind=float,
        unit="s",
        low=0.1,
        high=DAY_S,
    )
    shutdown_grace: float = option(30.0, "How long a drain lets running turns finish.", unit="s", low=0, high=DAY_S)
    cancel_timeout: float = option(
        5.0, "How long a drain waits, at each of three places, for what it cancelled.", unit="s", low=0.1, high=HOUR_S
    )
    shard_count: int | None = option(
        None,
        "How many shards keep the runs of a server; unset, as many as there are, first 1, in a cluster 64.",
        kind=int,
        unit="shards",
        low=1,
        high=4096,
    )
    shard_lease_ttl: float = option(30.0, "How long a dead worker keeps its shards.", unit="s", low=1, high=HOUR_S)
    shard_lease_interval: float = option(
        10.0, "How often workers renew and rebalance their shards.", unit="s", low=0.1, high=HOUR_S
    )
    idempotency_ttl: float = option(
        DAY_S, "How long an idempotency key finds the run it first submitted.", unit="s", low=1, high=MONTH_S
    )
    retention: float = option(
        0.0,
        "How long a run is kept after it has completed, failed or been cancelled; 0, for ever.",
        unit="s",
        low=0,
        high=CENTURY_S,
    )
    retention_quarantined: float = option(
        0.0, "How long a quarantined run is kept; 0, for ever.", unit="s", low=0, high=CENTURY_S
    )
    live_ttl_after_archive: float = option(
        300.0, "How long an archived run stays in the live store.", unit="s", low=0, high=MONTH_S
    )

    def __post_init__(self) -> None:
        """Refuse what is absurd by itself or in this company."""
        poison = {each.key: getattr(self.poison, each.field, None) for each in _POISON}
        refuse(_worker_faults({each.key: getattr(self, each.key) for each in _WORKER} | poison))

    @classmethod
    def from_env(cls, environ: Mapping[str, str], **overrides: Any) -> WorkerOptions:
        """Read the options from an environment; `overrides` (by `Option.key`, as text or value) win unless None."""
        values = given(OPTIONS, environ, overrides)
        refuse(_worker_faults(values))
        poison = {each.field: values.pop(each.key) for each in _POISON}
        return cls(poison=PoisonOptions(**poison), **values)

    @property
    def evacuate_after_s(self) -> float:
        """`evacuate_after`, or what stands for it."""
        return self.lock_ttl if self.evacuate_after is None else self.evacuate_after


_WORKER = table_of(WorkerOptions)
_POISON = table_of(PoisonOptions, "poison.")
OPTIONS: tuple[Option, ...] = _WORKER + _POISON

_BY_KEY = {each.key: each for each in OPTIONS}
IDEMPOTENCY_TTL = _BY_KEY["idempotency_ttl"]  # a worker's options hold it for all, but it is a client's
CODEC = _BY_KEY["codec"]  # of workers and clients


def _worker_faults(values: Mapping[str, Any]) -> Iterator[str]:
    """The faults of single values, then those of pairs whose values are sound by themselves."""
    single = faults_in(OPTIONS, values)
    if (codec := values["codec"]) is not None and "codec" not in single and not _OBJECT.fullmatch(codec):
        single["codec"] = f"{_BY_KEY['codec'].title} is {codec!r}, but must be module:attribute"
    yield from single.values()
    evacuate = "lock_ttl" if values["evacuate_after"] is None else "evacuate_after"
    pairs = (
        # The ladder of a blocked lane only goes up, and ends before the blocking turn loses its lock, at three lives.
        ("block_warn", "replace_after", 1),
        ("replace_after", evacuate, 1),
        (evacuate, "lock_ttl", 3),
        # A lease has to be renewed before it lapses.
        ("shard_lease_interval", "shard_lease_ttl", 1),
    )
    for short, long, times in pairs:
        if not single.keys() & {short, long} and values[short] >= values[long] * times:
            yield (
                f"{_BY_KEY[short].title} is {values[short]:g} s, but must be less than "
                f"{f'{times} times ' if times > 1 else ''}{_BY_KEY[long].title}, which is {values[long]:g} s"
            )
