"""The metrics of a supervisor and its children, in Prometheus' text format.

Written by hand, because the format is lines of text and a library for it costs a parent that wants to be small five
megabytes. Totals carry no label; `pyrula_child_*` are told by slot and role, with the processes that share one taken
together, so that the number of series does not grow with restarts. Counters include the children that are gone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

from pyrula_runtime.core.deaths import Cause
from pyrula_supervisor.actions import KINDS
from pyrula_supervisor.facts import Blocks, Facts

KIND = "text/plain; version=0.0.4; charset=utf-8"

CHILD_STATES = ("starting", "ready", "blocked", "draining", "stopped", "backoff")
SUPERVISOR_STATES = ("starting", "running", "draining", "reloading")

Labels = tuple[tuple[str, str], ...]
Place = tuple[str, int]  # role and slot


@dataclass(slots=True)
class Family:
    """One metric: a name, what it means, and its values by label."""

    name: str
    kind: str
    meaning: str
    samples: list[tuple[Labels, float]] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)  # what follows the name, sample by sample; nothing if it is empty

    def lines(self) -> Iterator[str]:
        """Its text; a metric without a value says nothing."""
        if not self.samples:
            return
        yield f"# HELP {self.name} {self.meaning}"
        yield f"# TYPE {self.name} {self.kind}"
        for (labels, value), part in zip(self.samples, self.parts or repeat(""), strict=False):
            told = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels)
            yield f"{self.name}{part}{{{told}}} {value:.12g}" if told else f"{self.name}{part} {value:.12g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def text(document: Mapping[str, Any], facts: Facts) -> bytes:
    """All metrics, of a status document and the facts it was made of."""
    families = [*_supervisor(document, facts), *_totals(document, facts), *_children(document, facts)]
    return "".join(f"{line}\n" for family in families for line in family.lines()).encode()


def _gauge(name: str, meaning: str, value: float | None) -> Family:
    return Family(f"pyrula_{name}", "gauge", meaning, [] if value is None else [((), float(value))])


def _counter(name: str, meaning: str, value: float) -> Family:
    return Family(f"pyrula_{name}_total", "counter", meaning, [((), float(value))])


def _by(name: str, meaning: str, label: str, values: Iterable[tuple[str, float | None]]) -> Family:
    samples: list[tuple[Labels, float]] = [(((label, key),), float(v)) for key, v in values if v is not None]
    return Family(f"pyrula_{name}", "gauge", meaning, samples)


def _supervisor(document: Mapping[str, Any], facts: Facts) -> Iterator[Family]:
    told = document["supervisor"]
    info: Labels = (("name", told["name"]), ("version", told["version"]), ("start_method", told["start_method"]))
    yield Family("pyrula_supervisor_info", "gauge", "Which supervisor this is.", [(info, 1.0)])
    states = ((state, float(told["state"] == state)) for state in SUPERVISOR_STATES)
    yield _by("supervisor_state", "1 for the state the supervisor is in.", "state", states)
    yield _gauge("supervisor_uptime_seconds", "How long the supervisor has run.", told["uptime_s"])
    yield _gauge("supervisor_rss_bytes", "Resident memory of the supervisor.", told["rss_bytes"])
    yield _gauge("supervisor_generation", "Generation of the code that is served.", told["generation"])
    yield _gauge("ready", "1 while /readyz is 200.", not told["unready"])
    yield _gauge("procs", "How many workers are wanted.", told["procs"])
    yield from _incidents(facts)


def _incidents(facts: Facts) -> Iterator[Family]:
    counts = dict.fromkeys(((kind, "") for kind in KINDS), 0) | dict(facts.incident_counts)
    samples: list[tuple[Labels, float]] = [
        ((("kind", kind), ("verdict", verdict)), float(count)) for (kind, verdict), count in sorted(counts.items())
    ]
    yield Family("pyrula_incidents_total", "counter", "Blocks, deaths and the like since the start.", samples)
    causes = [cause for cause in Cause if cause is not Cause.blameless]
    charges: list[tuple[Labels, float]] = [((("cause", each),), float(facts.charges.get(each, 0))) for each in causes]
    yield Family("pyrula_charges_total", "counter", "Charges of runs since the start.", charges)
    yield _blocks(facts.blocks)


def _blocks(blocks: Blocks) -> Family:
    bounds = [*map("{:g}".format, blocks.BOUNDS_S), "+Inf"]
    counts = zip(bounds, (*blocks.at_most, blocks.count), strict=True)
    family = Family("pyrula_lane_block_seconds", "histogram", "How long lanes were blocked, of blocks that are over.")
    family.samples += [((("le", bound),), float(count)) for bound, count in counts]
    family.parts = ["_bucket"] * len(bounds) + ["_sum", "_count"]
    family.samples += [((), blocks.total_s), ((), float(blocks.count))]
    return family


def _totals(document: Mapping[str, Any], facts: Facts) -> Iterator[Family]:
    children, store = document["children"], document["store"]
    states = Counter(child["state"] for child in children if child["role"] != "clerk")
    yield _by("children", "Worker processes by state.", "state", ((each, states[each]) for each in CHILD_STATES))
    roles = Counter(child["role"] for child in children)
    yield _gauge("surge_children", "Workers that were started beside stuck ones.", roles["surge"])
    yield _gauge("cells", "Processes that run suspects.", roles["cell"])
    yield _gauge("turns_running", "Turns that run now.", sum(child["turns_running"] for child in children))
    yield _gauge("turns_capacity", "Turns that may run at once.", sum(child["capacity"] for child in children))
    done = sum(child["turns_done"] for child in children) + sum(facts.turns_of_the_gone.values())
    yield _counter("turns_done", "Turns that ended by themselves.", done)
    lag_ms = max((child["lane_lag_ms"] for child in children), default=0.0)
    yield _gauge("lane_lag_seconds", "How late the lane is that is latest.", lag_ms / 1000)
    yield _gauge("store_ok", "1 while the store serves.", store["ok"])
    yield _gauge("store_age_seconds", "How old what is said of the store is.", store["age_s"])
    queue = ((name, value) for name, value in document["queue"].items() if name != "age_s")
    yield _by("queue_runs", "Runs in the store by status.", "status", queue)
    yield _gauge("suspects", "Runs that wait for a cell.", document["queue"]["suspects"])
    yield _gauge("quarantined_runs", "Runs in quarantine.", document["queue"]["quarantined"])
    pins: list[tuple[Labels, float]] = [
        ((("workflow", pin["workflow"]), ("version", pin["version"])), float(pin["runs"])) for pin in document["pins"]
    ]
    yield Family("pyrula_unserved_runs", "gauge", "Runs pinned to a version that no live worker serves.", pins)


def _children(document: Mapping[str, Any], facts: Facts) -> Iterator[Family]:
    places: dict[Place, list[Mapping[str, Any]]] = defaultdict(list)
    for child in document["children"]:
        role = "worker" if child["role"] == "surge" else str(child["role"])
        places[role, child["slot"]].append(child)
    done = Counter({(str(role), slot): count for (role, slot), count in facts.turns_of_the_gone.items()})

    def family(name: str, kind: str, meaning: str, values: Iterable[tuple[Place, float | None]]) -> Family:
        samples: list[tuple[Labels, float]] = [
            ((("slot", str(slot)), ("role", role)), float(value)) for (role, slot), value in values if value is not None
        ]
        return Family(f"pyrula_child_{name}", kind, meaning, samples)

    def each(key: str) -> Iterator[tuple[Place, float | None]]:
        for place, rows in places.items():
            known = [row[key] for row in rows if row[key] is not None]
            yield place, sum(known) if known else None

    ups = ((place, float(any(row["state"] in ("ready", "blocked") for row in rows))) for place, rows in places.items())
    lags = ((place, None if ms is None else ms / 1000) for place, ms in _most(places, "lane_lag_ms"))
    shares = ((place, None if percent is None else percent / 100) for place, percent in each("cpu_percent"))
    yield family("up", "gauge", "1 while the slot has a process that serves.", ups)
    yield family("turns_running", "gauge", "Turns that run in the slot.", each("turns_running"))
    turns = ((place, (count or 0) + done[place]) for place, count in each("turns_done"))
    yield family("turns_done_total", "counter", "Turns that ended in the slot by themselves.", turns)
    yield family("lane_lag_seconds", "gauge", "How late the slot's lane is.", lags)
    yield family("rss_bytes", "gauge", "Resident memory.", each("rss_bytes"))
    yield family("uss_bytes", "gauge", "Memory it shares with nobody.", each("uss_bytes"))
    yield family("cpu_ratio", "gauge", "Share of one core.", shares)
    yield family("restarts_total", "counter", "Ends that nobody had asked for.", _most(places, "restarts"))
    yield family("report_age_seconds", "gauge", "How old its last report is.", _most(places, "report_age_s"))


def _most(places: Mapping[Place, list[Mapping[str, Any]]], key: str) -> Iterator[tuple[Place, float | None]]:
    """What does not add up: the largest of those who share the place."""
    for place, rows in places.items():
        yield place, max((row[key] for row in rows if row[key] is not None), default=None)
