"""Durable runs of five steps on a Valkey server, beside what that server does alone and beside DBOS."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.figures import Case, Measurement, Metric
from benchmarks.measurements.draining import each_once, per_s
from benchmarks.measurements.queues import WORKERS, drained_alone
from benchmarks.measurements.throughput import fill_and_drain
from benchmarks.systems.dbos import Dbos
from benchmarks.systems.pyrula import Pyrula
from benchmarks.systems.valkey import Server

_STEPS = 5


def measurement() -> Measurement:
    """The product, the server alone, DBOS."""
    return Measurement(
        name="five_steps",
        title="5-step runs drained by 2 workers, Valkey",
        about=(
            "A backlog, from when both workers are at it. Server alone: the least scripts that such a run needs, 50 "
            "in a write: five, of which the last ends the run and claims the next. DBOS: on SQLite, from the first "
            "line of the first run; tuned: 50 workflows a worker, ten polls a second."
        ),
        metrics=(
            Metric(key="runs", title="runs", unit="/s", more_is_better=True),
            Metric(key="again", title="done more than once", unit="runs"),
            Metric(key="scripts", title="scripts called", unit="/s", more_is_better=True),
            Metric(key="per_run", title="scripts called for a run", unit=""),
            Metric(key="script_us", title="server's time for a script", unit="µs"),
            Metric(key="server", title="server's processor", unit="% of a core"),
        ),
        cases=(
            Case(system="Pyrula", run=_pyrula),
            Case(system="server alone", run=_server_alone),
            Case(system="DBOS", run=lambda bench: _dbos(bench, Dbos())),
            Case(system="DBOS, tuned", run=lambda bench: _dbos(bench, Dbos(tuned=True))),
        ),
    )


def _pyrula(bench: Bench) -> dict[str, float]:
    count = bench.size(6_000, 50)
    with bench.home() as home:
        server = Server(home)
        system = Pyrula(url=server.url)
        home.ask(system.client(home, "fill", "five", count, 50))
        before, busy_s = server.scripts(), server.busy_s()
        for number in range(WORKERS):
            home.start(system.worker(home, str(number)))
        ends, again = each_once(home, "end", count)
        after, busy_s = server.scripts(), server.busy_s() - busy_s
        begun = home.tape.of("begin")
        took_s = (ends[-1].at_ns - begun[0].at_ns) / 1e9
    calls = after["calls"] - before["calls"]
    return {
        "runs": per_s(begun, ends, WORKERS),
        "again": again,
        "scripts": calls / took_s,
        "per_run": calls / count,
        "script_us": (after["took_us"] - before["took_us"]) / calls,
        "server": busy_s / took_s * 100,
    }


def _server_alone(bench: Bench) -> dict[str, float]:
    runs = drained_alone(bench, bench.size(30_000, 400), _STEPS)
    return {"runs": runs, "scripts": runs * _STEPS, "per_run": _STEPS}


def _dbos(bench: Bench, system: Dbos) -> dict[str, float]:
    _, drained = fill_and_drain(bench, system, "five", (bench.size(200, 50), 50, WORKERS))
    return {"runs": drained}
