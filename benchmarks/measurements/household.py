"""What a supervisor, its clerk and four workers cost that have nothing to do. Six workflows are served."""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchmarks.bench import CHECKOUT, Bench
from benchmarks.figures import Case, Measurement, Metric
from benchmarks.inside import statements
from benchmarks.processes import busy_s, descendants
from benchmarks.systems.supervisor import Given, Supervised, supervised
from benchmarks.tape import Note

_SETTLE_S = 3.0
_WARM = 20
_PAUSE_NS = 5_000_000
_GIVEN = Given(
    app="benchmarks.inside.pyrula_app",
    env={
        statements.VARIABLE: "1",
        "PYTHONPATH": f"{CHECKOUT / 'benchmarks' / 'inside' / 'counted'}:{CHECKOUT}",
    },
)


def measurement() -> Measurement:
    """By who spends it."""
    return Measurement(
        name="household",
        title="A supervisor and four workers that serve six workflows, idle",
        about=f"A window of 20 s, {_SETTLE_S:.0f} s after {_WARM} no-op runs; started from a template.",
        metrics=(
            Metric(key="cpu", title="processor, all together", unit="% of a core"),
            Metric(key="cpu_supervisor", title="of it, the supervisor", unit="% of a core"),
            Metric(key="cpu_clerk", title="of it, the clerk", unit="% of a core"),
            Metric(key="cpu_workers", title="of it, the four workers", unit="% of a core"),
            Metric(key="statements", title="statements given to SQLite, all together", unit="/s"),
            Metric(key="calls", title="of them, apart by 5 ms or more in their process: calls of the store", unit="/s"),
            Metric(key="statements_clerk", title="of them, the clerk's", unit="/s"),
            Metric(key="writes", title="write transactions, all together", unit="/s"),
        ),
        cases=(Case(system="Pyrula", run=_run, at_most=1),),
    )


def _run(bench: Bench) -> dict[str, float]:
    with bench.home() as home, supervised(home, _GIVEN) as supervisor:
        supervisor.ready()
        supervisor.settled()
        supervisor.submit("noop", *map(str, range(_WARM)))
        home.wait_for("begin", _WARM)
        time.sleep(_SETTLE_S)
        return _window(supervisor, bench.size(20, 3))


def _window(supervisor: Supervised, window_s: float) -> dict[str, float]:
    who = _who(supervisor)
    supervisor.home.tape.forget()
    before_s = {name: busy_s(pids) for name, pids in who.items()}
    time.sleep(window_s)
    share = {name: (busy_s(pids) - before_s[name]) / window_s * 100 for name, pids in who.items()}
    given = supervisor.home.tape.of("statement")
    return {
        "cpu": share.pop("all"),
        **{f"cpu_{name}": value for name, value in share.items()},
        "statements": len(given) / window_s,
        "calls": _calls(given) / window_s,
        "statements_clerk": sum(note.pid in who["clerk"] for note in given) / window_s,
        "writes": sum(note.key == "BEGIN" for note in given) / window_s,
    }


def _calls(given: Sequence[Note]) -> int:
    """How often the store is called for something: one call is a row of statements without a pause."""
    calls, last_ns = 0, dict[int, int]()
    for note in given:
        calls += note.at_ns - last_ns.get(note.pid, 0) >= _PAUSE_NS
        last_ns[note.pid] = note.at_ns
    return calls


def _who(supervisor: Supervised) -> dict[str, list[int]]:
    own, rows = supervisor.process.pid, supervisor.document()["children"]
    return {
        "all": [own, *descendants(own)],
        "supervisor": [own],
        "clerk": [row["pid"] for row in rows if row["role"] == "clerk"],
        "workers": [row["pid"] for row in rows if row["role"] == "worker"],
    }
