"""The parts of README that are made from the source, so that each thing is said in one place.

`python -m tests.examples.readme` writes them anew between their marks, and the unit among the examples; tests compare.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.figures import Measurement
from benchmarks.measurements import MEASUREMENTS
from pyrula_runtime.core.status import diagram
from pyrula_runtime.options import OPTIONS, Option, WorkerOptions
from pyrula_runtime.settings import SETTINGS
from pyrula_supervisor import tables
from pyrula_supervisor.options import SUPERVISOR_OPTIONS, SupervisorOptions
from pyrula_supervisor.unit import Daemon, unit

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
RESULTS = ROOT / "benchmarks" / "results.json"
UNIT = ROOT / "examples" / "deploy" / "pyrula.service"

# understood, but without effect in this version
LATER = frozenset(
    [
        "live_ttl_after_archive",
        "postgres_dsn",
        "runtime_name",
        "cloud_api_key",
        "cloud_drain_deadline_s",
    ]
)
_SECTION = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def renewed(text: str) -> str:
    """The text with every generated part as it has to be."""
    return _SECTION.sub(lambda found: f"{found[1]}\n{_MADE[found[2]]()}\n\n{found[3]}", text)


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _options(table: Sequence[Option]) -> str:
    return _table(["option", "flag and variable", "default", "meaning"], map(_option, table))


def _option(option: Option) -> list[str]:
    mark = " †" if option.name in LATER else ""
    spelled = "<br>".join(f"`{spelling}`" for spelling in (option.flag, option.env) if spelling)
    default = "unset" if option.default is None else f"{_number(option.default)} {option.unit}".rstrip()
    return [f"`{option.name}`{mark}", spelled, default, option.help]


def _number(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _performance() -> str:
    kept: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    told = [measured(make(), kept[name]) for name, make in MEASUREMENTS.items() if name in kept]
    if not any(told):
        return "`make bench` measures on your machine."
    intro = "Medians, with the least and greatest in brackets. `make bench` measures on your machine."
    return "\n\n".join([intro, *filter(None, told)])


def measured(measurement: Measurement, told: Mapping[str, Any]) -> str:
    """What was kept of a measurement, which may be older than its definition; empty if nothing of it fits."""
    figures = [told["figures"][metric.key] for metric in measurement.metrics if metric.key in told["figures"]]
    known = {system for figure in figures for system in figure["systems"]}
    systems = [each for each in dict.fromkeys(case.system for case in measurement.cases) if each in known]
    rows = [
        [
            ", ".join(filter(None, (figure["title"], figure["unit"]))),
            *(_cell(figure["systems"].get(system)) for system in systems),
        ]
        for figure in figures
        if not figure["systems"].keys().isdisjoint(systems)
    ]
    if not rows:
        return ""
    machine = "{cores} cores, {system}, CPython {python}, SQLite {sqlite}, fsync {fsync_p50_ms} ms, load {load_average}"
    place = machine.format_map(told["machine"])
    return f"**{measurement.title}.** {measurement.about} Measured on {place}.\n\n{_table(['', *systems], rows)}"


def _cell(series: Mapping[str, Any] | None) -> str:
    if series is None:
        return "–"
    if "words" in series:
        return str(series["words"]).replace("|", "\\|").replace("\n", " ")
    median, least, greatest = (_figure(series[key]) for key in ("median", "least", "greatest"))
    return median if series["count"] == 1 else f"{median} ({least}–{greatest})"


def _figure(value: float | None) -> str:
    return "none" if value is None else f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"


def _fenced(language: str, text: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```"


def service() -> str:
    """The unit among the examples: what `pyrula-supervisor unit --procs 4 --workflow app` prints in /srv/app."""
    worker = WorkerOptions()
    return unit(
        Daemon(
            name=SupervisorOptions().name,
            python="/srv/app/.venv/bin/python",
            directory=Path("/srv/app"),
            args=("--procs", "4", "--workflow", "app"),
            startup_s=SupervisorOptions().startup_timeout,
            drain_s=worker.shutdown_grace + 3 * worker.cancel_timeout,
        )
    )


_MADE: dict[str, Callable[[], str]] = {
    "diagram": lambda: _fenced("mermaid", diagram()),
    "child_diagram": lambda: _fenced("mermaid", tables.diagram()),
    "options": lambda: _options(OPTIONS),
    "supervisor_options": lambda: _options(SUPERVISOR_OPTIONS),
    "settings": lambda: _options(SETTINGS),
    "performance": _performance,
}


if __name__ == "__main__":
    README.write_text(renewed(README.read_text()))
    UNIT.write_text(service())
