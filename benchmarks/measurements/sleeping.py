"""What runs cost that sleep: workers that have nothing to do, with none of them in the store and with many."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.bench import CHECKOUT, Bench, Home
from benchmarks.figures import Case, Measurement, Metric
from benchmarks.inside import statements
from benchmarks.processes import busy_s, descendants, memory_mb
from benchmarks.systems.pyrula import Pyrula
from benchmarks.systems.supervisor import Given, Supervised, supervised
from benchmarks.systems.valkey import Server
from benchmarks.systems.waiting_runs import until_asleep

_COUNTS = {"none": 0, "100,000": 100_000}
_SETTLE_S = 5
_WARM = 20
_IN_FLIGHT = 50
_APP = "benchmarks.inside.sleeping_app"
_COUNTED = {
    statements.VARIABLE: "1",
    "PYTHONPATH": f"{CHECKOUT / 'benchmarks' / 'inside' / 'counted'}:{CHECKOUT}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A store, as this measurement sees it: what it keeps in all, and how often it is called in a while."""

    given: Given
    kept: Callable[[], float]
    calls: Callable[[float], float]


def measurement() -> Measurement:
    """By store, and by how many sleep."""
    return Measurement(
        name="sleeping",
        title="A supervisor and four workers, while runs sleep for a month",
        about=(
            f"A window of 20 s, {_SETTLE_S} s after {_WARM} no-op runs. First the workers that have brought the runs "
            "to sleep, then a supervisor that was started beside the sleeping ones."
        ),
        metrics=(
            Metric(key="cpu", title="processor, all together", unit="% of a core"),
            Metric(key="calls", title="statements given to SQLite, or calls to the server", unit="/s"),
            Metric(key="uss", title="private memory of a worker that has brought them to sleep", unit="MB"),
            Metric(key="cpu_fresh", title="started beside them: processor, all together", unit="% of a core"),
            Metric(key="calls_fresh", title="started beside them: statements or calls", unit="/s"),
            Metric(key="uss_fresh", title="started beside them: private memory of a worker", unit="MB"),
            Metric(key="uss_clerk_fresh", title="started beside them: private memory of the clerk", unit="MB"),
            Metric(key="asleep", title="brought to sleep", unit="runs/s", more_is_better=True),
            Metric(key="kept", title="what the store keeps for one (on the disk, or in the server)", unit="bytes"),
        ),
        cases=tuple(
            Case(system=f"{store}, {name}", run=partial(_run, place, count), at_most=1)
            for store, place in (("SQLite", _sqlite), ("Valkey", _valkey))
            for name, count in _COUNTS.items()
        ),
    )


def _sqlite(home: Home) -> _Place:
    def kept() -> float:
        """The file, with what is not yet folded into it."""
        files = (path for path in home.path.glob(f"{home.db.name}*") if path.suffix in (".db", ".db-wal"))
        return float(sum(path.stat().st_size for path in files))

    def calls(window_s: float) -> float:
        home.tape.forget()
        time.sleep(window_s)
        return float(len(home.tape.of("statement")))

    return _Place(given=Given(app=_APP, env=_COUNTED), kept=kept, calls=calls)


def _valkey(home: Home) -> _Place:
    server = Server(home)
    return _Place(
        given=Given(app=_APP, store=server.url),
        kept=lambda: server.number("memory", "used_memory"),
        calls=server.calls,
    )


def _run(make: Callable[[Home], _Place], count: int, bench: Bench) -> dict[str, float]:
    count = bench.size(count, min(count, 300))
    found: dict[str, float] = {}
    with bench.home() as home:
        place = make(home)
        with supervised(home, place.given) as supervisor:
            workers = supervisor.ready()
            supervisor.settled()
            found |= _brought_to_sleep(supervisor, place, count)
            found |= _window(supervisor, place, bench) | {"uss": _private_mb(workers)}
        with supervised(home, place.given) as supervisor:
            workers = supervisor.ready()
            supervisor.settled()
            found |= {f"{key}_fresh": value for key, value in _window(supervisor, place, bench).items()}
            found |= {"uss_fresh": _private_mb(workers), "uss_clerk_fresh": _private_mb(_clerk(supervisor))}
    return found


def _brought_to_sleep(supervisor: Supervised, place: _Place, count: int) -> dict[str, float]:
    if not count:
        return {}
    before, since = place.kept(), time.monotonic()
    submitting = threading.Thread(target=_submitted, args=(supervisor, count))
    submitting.start()
    until_asleep(supervisor.url, count)
    took_s = time.monotonic() - since
    submitting.join()
    return {"asleep": count / took_s, "kept": (place.kept() - before) / count}


def _submitted(supervisor: Supervised, count: int) -> None:
    client = Pyrula(url=supervisor.url).client(supervisor.home, "fill", "month", count, _IN_FLIGHT)
    supervisor.home.ask(client, patience_s=900)


def _window(supervisor: Supervised, place: _Place, bench: Bench) -> dict[str, float]:
    """Some runs, then none for a while, so that nothing is left of the start; and then the look."""
    before = supervisor.home.tape.count("begin")
    supervisor.submit("noop", *map(str, range(_WARM)))
    supervisor.home.wait_for("begin", before + _WARM)
    time.sleep(bench.size(_SETTLE_S, 1))
    everybody = [supervisor.process.pid, *descendants(supervisor.process.pid)]
    busy_before_s, since = busy_s(everybody), time.monotonic()
    calls = place.calls(bench.size(20, 1))
    took_s = time.monotonic() - since
    return {"cpu": (busy_s(everybody) - busy_before_s) / took_s * 100, "calls": calls / took_s}


def _private_mb(pids: Sequence[int]) -> float:
    return statistics.median(memory_mb(pid)["uss"] for pid in pids)


def _clerk(supervisor: Supervised) -> list[int]:
    return [row["pid"] for row in supervisor.document()["children"] if row["role"] == "clerk"]
