"""The benchmark runs at all: one cheap measurement, quickly, prints its table and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(tmp_path: Path, *args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *args],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_measurements_are_listed(tmp_path: Path) -> None:
    names = [line.split()[0] for line in run(tmp_path, "--list").splitlines()]
    assert names == [
        "limits",
        "throughput",
        "latency",
        "recovery",
        "idle",
        "cold",
        "size",
        "resume",
        "replacement",
        "memory",
        "probes",
        "stopping",
        "household",
        "attribution",
        "isolation",
        "faults",
        "neighbours",
        "overhead",
    ]


def test_a_quick_measurement_prints_its_table_and_leaves_nothing(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    printed = run(tmp_path, "limits", "--quick", "--results", str(results))
    rows = [line for line in printed.splitlines() if line.startswith("| ") and "rows/s" in line]
    assert len(rows) == 4
    assert "cores, " in printed
    assert list(tmp_path.iterdir()) == []


def test_a_worker_that_is_watched_is_measured_beside_one_that_is_not(tmp_path: Path) -> None:
    printed = run(tmp_path, "overhead", "--quick")
    rows = [line.split("|") for line in printed.splitlines() if "run, µs" in line]
    assert [float(row[2].replace(",", "")) > 0 for row in rows] == [True, True]
    assert list(tmp_path.iterdir()) == []


def test_quick_jobs_are_watched_beside_one_that_blocks(tmp_path: Path) -> None:
    printed = run(tmp_path, "neighbours", "--quick", "--system", "Pyrula")
    rows = [line.split("|") for line in printed.splitlines() if "50 % done within" in line]
    assert [float(row[2].replace(",", "")) > 0 for row in rows] == [True, True]
    assert list(tmp_path.iterdir()) == []
