"""Jobs a second that only wait, as for an answer from elsewhere: how well the workers fill their places."""

from __future__ import annotations

from functools import partial

from benchmarks.bench import Bench
from benchmarks.figures import Case, Measurement, Metric
from benchmarks.inside.jobs import WAIT_S
from benchmarks.measurements.draining import each_once, per_s
from benchmarks.systems.peers import ALL, Peer, Running

_WORKERS = 2
_PLACES = 50
_SLOW = {"rq": 200}


def measurement() -> Measurement:
    """The product, its peers, and the least worker."""
    ideal = _WORKERS * _PLACES / WAIT_S
    return Measurement(
        name="waiting",
        title=f"Jobs that wait {WAIT_S * 1000:.0f} ms, {_WORKERS} worker processes with {_PLACES} at once",
        about=(
            f"A backlog of 2,000, from when both processes are at it to the last end; {ideal:,.0f}/s if nothing cost "
            "anything. Rq does one job a process at once."
        ),
        metrics=(
            Metric(key="per_s", title="jobs", unit="/s", more_is_better=True),
            Metric(key="again", title="done more than once", unit="jobs"),
        ),
        cases=tuple(Case(system=peer.name, run=partial(_run, peer)) for peer in ALL if peer.name != "least possible"),
    )


def _run(peer: Peer, bench: Bench) -> dict[str, float]:
    count = bench.size(_SLOW.get(peer.name, 2_000), 100)
    with bench.home() as home:
        running = Running(home, peer)
        home.ask(running.fill("waiting", count, peer.in_flight))
        running.work(_WORKERS, _PLACES)
        ends, again = each_once(home, "end", count)
        return {"per_s": per_s(home.tape.of("begin"), ends, _WORKERS), "again": again}
