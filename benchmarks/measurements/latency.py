"""From just before a submit to the first line of its workflow, on a worker that has nothing else to do."""

from __future__ import annotations

from functools import partial

from benchmarks.bench import Bench
from benchmarks.figures import Case, Measurement, Metric, quantile
from benchmarks.systems.dbos import Dbos
from benchmarks.systems.least import Least
from benchmarks.systems.pyrula import Pyrula
from benchmarks.systems.system import System


def measurement() -> Measurement:
    """The product, the least that could do it, DBOS."""
    systems: tuple[System, ...] = (Pyrula(), Least(), Dbos())
    return Measurement(
        name="latency",
        title="Submit to the first line of the workflow, idle worker",
        about=(
            "200 submits with pauses of 20 to 120 ms, client and worker in processes of their own. Least possible: a "
            "durable row, a datagram, an asyncio process that reads the row; no claim and no guarantee."
        ),
        metrics=tuple(
            Metric(key=f"p{percent}", title=f"{percent} % start within", unit="ms") for percent in (50, 95, 99)
        ),
        cases=tuple(Case(system=each.name, run=partial(_run, each)) for each in systems),
    )


def _run(system: System, bench: Bench) -> dict[str, float]:
    count = bench.size(200, 20)
    with bench.home() as home:
        system.prepare(home)
        home.start(system.worker(home))
        home.ask(system.client(home, "fill", "noop", 1))
        home.wait_for("begin", 1)
        home.tape.forget()
        home.ask(system.client(home, "ping", "noop", count))
        begun = {note.key: note.at_ns for note in home.wait_for("begin", count)}
        took_ms = [(begun[note.key] - note.at_ns) / 1e6 for note in home.tape.of("submit")]
    return {f"p{percent}": quantile(took_ms, percent / 100) for percent in (50, 95, 99)}
