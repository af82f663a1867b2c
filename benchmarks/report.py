"""What is printed and what is kept: one table per measurement, and the same figures as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

from benchmarks.figures import Found, Measurement, Metric, Series

_NONE = "–"
# more systems than this stand below each other
_WIDEST = 6


def table(measurement: Measurement, found: Found, machine: Mapping[str, object], repeats: int) -> str:
    """A table in Markdown: medians with least and greatest, and the first system's ratio to each other one."""
    systems = list(dict.fromkeys(case.system for case in measurement.cases))
    rows = _by_system if len(systems) > _WIDEST else _by_metric
    lines = [
        f"## {measurement.title}",
        "",
        measurement.about,
        f"{_place(machine)}{f'; median of {repeats} (least–greatest)' if repeats > 1 else ''}.",
    ]
    return "\n".join([*lines, "", *_aligned(rows(measurement, found, systems))])


def _by_metric(measurement: Measurement, found: Found, systems: list[str]) -> list[list[str]]:
    """A row for each metric; then the ratios."""
    first, others = systems[0], systems[1:]
    others = [other for other in others if any(_ratio(each, first, other) != _NONE for each in found.values())]
    head = ["", *systems, *(f"{first} ÷ {other}" for other in others)]
    rows = [
        [_title(metric), *(_cell(found[metric.key].get(system)) for system in systems)]
        + [_ratio(found[metric.key], first, other) for other in others]
        for metric in measurement.metrics
    ]
    return [head, *rows]


def _by_system(measurement: Measurement, found: Found, systems: list[str]) -> list[list[str]]:
    """A row for each system, where there are many; beside each figure its ratio."""
    first = systems[0]
    columns = [found[metric.key] for metric in measurement.metrics]
    head = ["", *(cell for metric in measurement.metrics for cell in (_title(metric), f"{first} ÷ it"))]
    rows = [
        [system, *(cell for each in columns for cell in (_cell(each.get(system)), _ratio(each, first, system)))]
        for system in systems
    ]
    return [head, *rows]


def _title(metric: Metric) -> str:
    direction = " (more is better)" if metric.more_is_better else ""
    return f"{metric.title}{f', {metric.unit}' if metric.unit else ''}{direction}"


def _cell(series: Series | None) -> str:
    if series is None:
        return _NONE
    if series.words:
        return series.words
    if len(series.values) == 1:
        return _number(series.median)
    return f"{_number(series.median)} ({_number(series.least)}–{_number(series.greatest)})"


def _ratio(found: Mapping[str, Series], first: str, other: str) -> str:
    if first not in found or other not in found or not found[other].is_ratable or not found[first].values:
        return _NONE
    return f"{found[first].median / found[other].median:.2f}"


def _number(value: float) -> str:
    if math.isinf(value):
        return "none"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


def _place(machine: Mapping[str, object]) -> str:
    return (
        f"{machine['cores']} cores, {machine['system']}, CPython {machine['python']}, SQLite {machine['sqlite']}, "
        f"fsync {machine['fsync_p50_ms']} ms, fixed loop {machine['spin_ms']} ms, load {machine['load_average']}"
    )


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))} |" for row in rows]
    return [lines[0], f"|{'|'.join('-' * (width + 2) for width in widths)}|", *lines[1:]]


def keep(path: Path, measurement: Measurement, found: Found, machine: Mapping[str, object]) -> None:
    """Put the figures of this measurement into the file, in place of its older ones."""
    kept = json.loads(path.read_text()) if path.exists() else {}
    kept[measurement.name] = {
        "machine": machine,
        "figures": {
            metric.key: {
                "title": metric.title,
                "unit": metric.unit,
                "systems": {system: _kept(series) for system, series in found[metric.key].items()},
            }
            for metric in measurement.metrics
        },
    }
    path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


def _kept(series: Series) -> dict[str, object]:
    if series.words:
        return {"words": series.words}
    spread = (series.median, series.least, series.greatest)
    median, least, greatest = (None if math.isinf(value) else float(f"{value:.4g}") for value in spread)
    return {"median": median, "least": least, "greatest": greatest, "count": len(series.values)}
