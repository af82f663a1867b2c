"""What the figures were measured on, and how quiet it was there."""

from __future__ import annotations

import os
import platform
import re
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import apsw

from benchmarks.figures import Series, quantile

_SYNCS = 200
_SPIN = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """How fast the machine was just now: fsync of 4 KB appended, and a loop of fixed work."""

    fsync_p50_ms: float
    spin_ms: float


def calibrate(folder: Path) -> Calibration:
    """Measure it; takes about a tenth of a second."""
    return Calibration(fsync_p50_ms=quantile(_syncs_ms(folder), 0.5), spin_ms=_spin_ms())


def _syncs_ms(folder: Path) -> list[float]:
    took = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(_SYNCS):
            file.write(b"x" * 4096)
            before = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append((time.perf_counter() - before) * 1000)
    return took


def _spin_ms() -> float:
    before = time.perf_counter()
    total = 0
    for n in range(_SPIN):
        total += n & 7
    return (time.perf_counter() - before) * 1000


def describe(calibrations: list[Calibration]) -> Mapping[str, object]:
    """The machine by its properties, without names of hosts or paths."""
    release = re.match(r"[\d.]*\d", platform.release())
    fsync = Series([each.fsync_p50_ms for each in calibrations])
    spin = Series([each.spin_ms for each in calibrations])
    return {
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {release.group() if release else ''}".strip(),
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "load_average": round(os.getloadavg()[0], 2),
        "fsync_p50_ms": _span(fsync),
        "spin_ms": _span(spin),
    }


def _span(series: Series) -> str:
    return f"{series.median:.2f} ({series.least:.2f}–{series.greatest:.2f})"
