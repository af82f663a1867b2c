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
        "queues",
        "queue_latency",
        "waiting",
        "five_steps",
        "queue_idle",
        "growth",
        "sleeping",
        "timers",
        "leases",
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


def test_queues_on_a_server_are_measured(tmp_path: Path) -> None:
    printed = run(tmp_path, "queues", "--quick", "--system", "Pyrula", "--system", "arq", "--system", "server")
    rows = {cells[0]: cells[1:] for cells in map(cells_of, printed.splitlines()) if len(cells) > 3}
    assert "–" not in rows["drained, /s (more is better)"]
    assert "–" not in rows["submitted, 50 in flight, /s (more is better)"]
    assert list(tmp_path.iterdir()) == []


def test_waiting_and_latency_and_idleness_on_a_server_are_measured(tmp_path: Path) -> None:
    printed = run(tmp_path, "queue_latency", "waiting", "queue_idle", "--quick", "--system", "Pyrula")
    rows = {cells[0]: cells[1] for cells in map(cells_of, printed.splitlines()) if len(cells) == 2}
    assert float(rows["50 % start within, ms"]) > 0
    assert 0 < float(rows["jobs, /s (more is better)"].replace(",", "")) < 2_000
    assert float(rows["calls to the server, /s"]) > 0
    assert list(tmp_path.iterdir()) == []


def test_runs_of_five_steps_are_counted_in_scripts(tmp_path: Path) -> None:
    printed = run(tmp_path, "five_steps", "--quick", "--system", "Pyrula", "--system", "server")
    rows = {cells[0]: cells[1:] for cells in map(cells_of, printed.splitlines()) if len(cells) > 2}
    assert float(rows["scripts called for a run"][0]) >= 5


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_growing_store_is_measured(tmp_path: Path) -> None:
    printed = run(tmp_path, "growth", "--quick", "--system", "1,000 ")
    rows = {cells[0]: cells[1] for cells in map(cells_of, printed.splitlines()) if len(cells) > 2}
    assert float(rows["memory of a run, bytes"].replace(",", "")) > 100


def test_sleeping_runs_are_weighed_and_their_timers_timed(tmp_path: Path) -> None:
    printed = run(tmp_path, "sleeping", "timers", "--quick", "--system", "SQLite, 10")
    rows = {cells[0]: cells[1] for cells in map(cells_of, printed.splitlines()) if len(cells) == 2}
    assert float(rows["brought to sleep, runs/s (more is better)"].replace(",", "")) > 0
    assert float(rows["started beside them: private memory of a worker, MB"]) > 0
    assert float(rows["earliest of all, ms"]) >= 0
    assert list(tmp_path.iterdir()) == []


def test_leases_of_workers_that_come_and_go_are_watched(tmp_path: Path) -> None:
    printed = run(tmp_path, "leases", "--quick")
    rows = {cells[0]: cells[1] for cells in map(cells_of, printed.splitlines()) if len(cells) == 2}
    assert float(rows["1 → 8: shards that changed hands"]) >= 32
    assert float(rows["8 → 4: from the command until balanced, s"]) > 0
    assert list(tmp_path.iterdir()) == []
