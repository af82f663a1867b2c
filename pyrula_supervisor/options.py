"""Every option of the supervisor once, as in `pyrula_runtime.options`, and the numbers its reducer is given.

Options are what a person sets, in seconds and words; a `Policy` is what the reducer computes with, in milliseconds,
made of the supervisor's options and those of its workers, since a drain lasts as long as a worker's drain may.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pyrula_runtime.options import HOUR_S, Option, WorkerOptions, faults_in, given, option, refuse, table_of

StartMethod = Literal["auto", "spawn", "template"]

MAX_PROCS = 128
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([KMGT]?)(?:i?B)?", re.IGNORECASE)
# It becomes the name of a socket and of a folder, so nothing that a path could mean otherwise.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorOptions:
    """How a supervisor keeps its workers. Durations are in seconds."""

    procs: int = option(1, "How many worker processes to keep.", unit="processes", low=1, high=MAX_PROCS)
    name: str = option("default", "Name of this supervisor, so that one host can have several.")
    min_ready: int = option(
        1, "How many workers must be ready for the supervisor to be ready.", unit="processes", low=1, high=MAX_PROCS
    )
    start_method: StartMethod = option(
        "auto",
        "How workers start: forked from a template that has imported the app once, as fresh interpreters (spawn), or "
        "whichever the app allows.",
        choices=("auto", "spawn", "template"),
    )
    startup_timeout: float = option(
        60.0, "How long a process may take until it is ready; then it is killed.", unit="s", low=0.1, high=HOUR_S
    )
    health_port: int = option(
        8081,
        "Port of probes, metrics and status; 0 turns it off.",
        low=0,
        high=65_535,
        env="PYRULA_WORKER_HEALTH_PORT",
    )
    health_host: str = option("127.0.0.1", "Address the probes listen on.", env="PYRULA_WORKER_HEALTH_HOST")
    max_turns_per_child: int = option(
        0, "Replace a worker after so many turns; 0, never.", unit="turns", low=0, high=10**12
    )
    max_rss_per_child: str = option("0", "Replace a worker whose memory passes this, such as 512M; 0, never.")
    warmup: str | None = option(
        None, "Function (module:function) the template calls once after it has imported the app.", kind=str
    )
    after_fork: str | None = option(
        None, "Function (module:function) every worker calls before it serves, forked or not.", kind=str
    )
    reload_settle: float = option(
        5.0, "How long the first worker of a reload must live before the others follow.", unit="s", low=0, high=HOUR_S
    )

    def __post_init__(self) -> None:
        """Refuse what is absurd by itself or in this company."""
        refuse(_faults({each.key: getattr(self, each.key) for each in SUPERVISOR_OPTIONS}))

    @classmethod
    def from_env(cls, environ: Mapping[str, str], **overrides: Any) -> SupervisorOptions:
        """Read the options from an environment; `overrides` (by `Option.key`, as text or value) win unless None."""
        values = given(SUPERVISOR_OPTIONS, environ, overrides)
        refuse(_faults(values))
        return cls(**values)


SUPERVISOR_OPTIONS: tuple[Option, ...] = table_of(SupervisorOptions)
_BY_KEY = {each.key: each for each in SUPERVISOR_OPTIONS}


def size_of(text: str) -> int | None:
    """The bytes that a text such as `512M`, `1.5G` or `1000` means, in powers of 1024; None if it means none."""
    found = _SIZE.fullmatch(text.strip())
    return int(float(found[1]) * UNITS[found[2].upper()]) if found else None


def _faults(values: Mapping[str, Any]) -> Iterator[str]:
    """The faults of single values, then what the table cannot say."""
    single = faults_in(SUPERVISOR_OPTIONS, values)
    yield from single.values()
    shapes: dict[str, tuple[Callable[[str], object], str]] = {
        "name": (_NAME.fullmatch, "up to 64 letters, digits, dots, dashes and underscores, a letter or digit first"),
        "max_rss_per_child": (lambda text: size_of(text) is not None, "a number of bytes such as 512M or 2G, or 0"),
        "warmup": (_FUNCTION.fullmatch, "module:function"),
        "after_fork": (_FUNCTION.fullmatch, "module:function"),
    }
    for key, (fits, shape) in shapes.items():
        if key not in single and values[key] is not None and not fits(values[key]):
            yield f"{_BY_KEY[key].title} is {values[key]!r}, but must be {shape}"
    if not single.keys() & {"procs", "min_ready"} and values["min_ready"] > values["procs"]:
        yield (
            f"{_BY_KEY['min_ready'].title} is {values['min_ready']}, but must be at most "
            f"{_BY_KEY['procs'].title}, which is {values['procs']}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What the reducer needs to know of the options. Times are milliseconds, 0 turns of memory or turns means never."""

    procs: int = 1
    min_ready: int = 1
    start_method: StartMethod = "auto"
    no_template: str = ""  # why none can be on this host, if so
    startup_timeout_ms: int = 60_000
    drain_ms: int = 45_000  # a worker's shutdown_grace and three cancel_timeouts: the longest that its drain lasts
    max_turns: int = 0
    max_rss_bytes: int = 0
    reload_settle_ms: int = 5_000
    lock_ttl_ms: int = 30_000
    block_warn_ms: int = 2_000
    replace_after_ms: int = 5_000
    evacuate_after_ms: int = 30_000

    @property
    def block_limit_ms(self) -> int:
        """How long code may block that has no longer timeout of its own."""
        return 3 * self.lock_ttl_ms

    @property
    def stand_in_ms(self) -> int:
        """After how long a silence the clerk renews a worker's locks; they last for twice as long at least by then."""
        return self.lock_ttl_ms // 4

    @classmethod
    def of(cls, options: SupervisorOptions, worker: WorkerOptions, no_template: str = "") -> Policy:
        """The policy that options ask for; `no_template` says why this host can have none, if it cannot."""
        return cls(
            procs=options.procs,
            min_ready=options.min_ready,
            start_method=options.start_method,
            no_template=no_template,
            startup_timeout_ms=round(options.startup_timeout * 1000),
            drain_ms=round((worker.shutdown_grace + 3 * worker.cancel_timeout) * 1000),
            max_turns=options.max_turns_per_child,
            max_rss_bytes=size_of(options.max_rss_per_child) or 0,
            reload_settle_ms=round(options.reload_settle * 1000),
            lock_ttl_ms=round(worker.lock_ttl * 1000),
            block_warn_ms=round(worker.block_warn * 1000),
            replace_after_ms=round(worker.replace_after * 1000),
            evacuate_after_ms=round(worker.evacuate_after_s * 1000),
        )
