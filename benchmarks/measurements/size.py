"""What runs leave on the disk, and how far the write-ahead log grows while they are drained."""

from __future__ import annotations

from pathlib import Path

import apsw

from benchmarks.bench import Bench, Home
from benchmarks.figures import Case, Measurement, Metric
from benchmarks.systems.dbos import Dbos
from benchmarks.systems.pyrula import Pyrula
from benchmarks.systems.system import System


def measurement() -> Measurement:
    """The product and DBOS, which keeps no write-ahead log."""
    return Measurement(
        name="size",
        title="Bytes on the disk, 5-step runs drained by 2 workers",
        about="Input and result under 100 bytes. Per run: the store's file after everything was folded into it.",
        metrics=(
            Metric(key="per_run", title="store per finished run", unit="bytes"),
            Metric(key="wal_peak", title="write-ahead log at its largest", unit="MB"),
            Metric(key="wal_left", title="write-ahead log once the workers have ended", unit="MB"),
        ),
        cases=(
            Case(system="Pyrula", run=lambda bench: _run(bench, Pyrula(), 4_000)),
            Case(system="DBOS", run=lambda bench: _run(bench, Dbos(), 200)),
        ),
    )


def _run(bench: Bench, system: System, full: int) -> dict[str, float]:
    count = bench.size(full, 50)
    with bench.home() as home:
        system.prepare(home)
        empty = _folded(home.db)
        home.ask(system.client(home, "fill", "five", count, 50))
        for number in range(2):
            home.start(system.worker(home, str(number)))
        seen = [0]
        home.wait_for("end", count, meanwhile=lambda: seen.append(_log_size(home)))
        home.end()
        found = {"per_run": 0.0, "wal_peak": max(seen) / 1e6, "wal_left": _log_size(home) / 1e6}
        return found | {"per_run": (_folded(home.db) - empty) / count}


def _log_size(home: Home) -> int:
    log = home.db.with_name(f"{home.db.name}-wal")
    return log.stat().st_size if log.exists() else 0


def _folded(db: Path) -> int:
    with apsw.Connection(str(db)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return db.stat().st_size
