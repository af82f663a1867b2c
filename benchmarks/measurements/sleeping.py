"""What runs cost that sleep: workers that have nothing to do, with none of them in the store and with many."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from functools import partial

from benchmarks.bench import CHECKOUT, Bench, Home
from benchmarks.figures import Case, Measurement, Metric
from benchmarks.inside import statements
from benchmarks.processes import busy_s, descendants, memory_mb
from benchmarks.systems.pyrula import Pyrula
from benchmarks.systems.supervisor import Given, Supervised, supervised
from benchmarks.systems.waiting_runs import until_asleep

_COUNTS = (0, 100_000)
_SETTLE_S = 5
_WARM = 20
_IN_FLIGHT = 50
_GIVEN = Given(
    app="benchmarks.inside.sleeping_app",
    env={
        statements.VARIABLE: "1",
        "PYTHONPATH": f"{CHECKOUT / 'benchmarks' / 'inside' / 'counted'}:{CHECKOUT}",
    },
)


def measurement() -> Measurement:
    """By how many sleep."""
    return Measurement(
        name="sleeping",
        title="A supervisor and four workers, while runs sleep for a month",
        about=(
            f"A window of 20 s, {_SETTLE_S} s after {_WARM} no-op runs. First the workers that have brought the runs "
            "to sleep, then a supervisor that was started beside the sleeping ones."
        ),
        metrics=(
            Metric(key="cpu", title="processor, all together", unit="% of a core"),
            Metric(key="statements", title="statements given to SQLite, all together", unit="/s"),
            Metric(key="writes", title="of them, write transactions", unit="/s"),
            Metric(key="uss", title="private memory of a worker that has brought them to sleep", unit="MB"),
            Metric(key="cpu_fresh", title="started beside them: processor, all together", unit="% of a core"),
            Metric(key="statements_fresh", title="started beside them: statements, all together", unit="/s"),
            Metric(key="writes_fresh", title="started beside them: write transactions", unit="/s"),
            Metric(key="uss_fresh", title="started beside them: private memory of a worker", unit="MB"),
            Metric(key="uss_clerk_fresh", title="started beside them: private memory of the clerk", unit="MB"),
            Metric(key="asleep", title="brought to sleep", unit="runs/s", more_is_better=True),
            Metric(key="file", title="store on the disk, for a sleeping run", unit="bytes"),
        ),
        cases=tuple(Case(system=f"{count:,} sleeping", run=partial(_run, count), at_most=1) for count in _COUNTS),
    )


def _run(count: int, bench: Bench) -> dict[str, float]:
    count = bench.size(count, min(count, 300))
    found: dict[str, float] = {}
    with bench.home() as home:
        with supervised(home, _GIVEN) as supervisor:
            workers = supervisor.ready()
            supervisor.settled()
            found |= _brought_to_sleep(home, supervisor, count)
            _idle(supervisor, bench)
            found |= _window(supervisor, bench.size(20, 1)) | {"uss": _private_mb(workers)}
        home.tape.forget()
        with supervised(home, _GIVEN) as supervisor:
            workers = supervisor.ready()
            supervisor.settled()
            _idle(supervisor, bench)
            window = _window(supervisor, bench.size(20, 1))
            found |= {f"{key}_fresh": value for key, value in window.items()}
            found |= {"uss_fresh": _private_mb(workers), "uss_clerk_fresh": _private_mb(_clerk(supervisor))}
    return found


def _brought_to_sleep(home: Home, supervisor: Supervised, count: int) -> dict[str, float]:
    if not count:
        return {}
    before, since = _size(home), time.monotonic()
    home.ask(Pyrula(url=supervisor.url).client(home, "fill", "month", count, _IN_FLIGHT))
    until_asleep(supervisor.url, count)
    took_s = time.monotonic() - since
    return {"asleep": count / took_s, "file": (_size(home) - before) / count}


def _size(home: Home) -> int:
    """The file, with what is not yet folded into it."""
    return sum(path.stat().st_size for path in home.path.glob(f"{home.db.name}*") if path.suffix in (".db", ".db-wal"))


def _idle(supervisor: Supervised, bench: Bench) -> None:
    """Some runs, and then none for a while: nothing is left of the start."""
    supervisor.submit("noop", *map(str, range(_WARM)))
    supervisor.home.wait_for("begin", _WARM)
    time.sleep(bench.size(_SETTLE_S, 1))


def _window(supervisor: Supervised, window_s: float) -> dict[str, float]:
    everybody = [supervisor.process.pid, *descendants(supervisor.process.pid)]
    supervisor.home.tape.forget()
    before_s = busy_s(everybody)
    time.sleep(window_s)
    given = supervisor.home.tape.of("statement")
    return {
        "cpu": (busy_s(everybody) - before_s) / window_s * 100,
        "statements": len(given) / window_s,
        "writes": sum(note.key == "BEGIN" for note in given) / window_s,
    }


def _private_mb(pids: Sequence[int]) -> float:
    return statistics.median(memory_mb(pid)["uss"] for pid in pids)


def _clerk(supervisor: Supervised) -> list[int]:
    return [row["pid"] for row in supervisor.document()["children"] if row["role"] == "clerk"]
