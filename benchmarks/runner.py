"""Asks every system once, then all of them again: what disturbs the machine for a while disturbs them alike."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.bench import Bench
from benchmarks.figures import Found, Measurement, Series
from benchmarks.machine import Calibration, calibrate


def measure(
    measurement: Measurement, bench: Bench, repeats: int, tell: Callable[[str], object]
) -> tuple[Found, list[Calibration]]:
    """All figures of a measurement, and how the machine did before each repeat."""
    found: Found = {metric.key: {} for metric in measurement.metrics}
    calibrations = []
    for repeat in range(repeats):
        calibrations.append(calibrate(bench.folder))
        for case in measurement.cases:
            if repeat < case.at_most:
                tell(f"{measurement.name} {repeat + 1}/{repeats}: {case.system}")
                for key, values in case.run(bench).items():
                    found[key].setdefault(case.system, Series()).add(values)
    return found, calibrations
