"""From just before a submit to the first line of its job, on idle workers of queues on one server."""

from __future__ import annotations

from functools import partial

from benchmarks.bench import Bench
from benchmarks.figures import Case, Measurement, Metric, quantile
from benchmarks.systems.peers import ALL, Peer, Running

_WORKERS = 2


def measurement() -> Measurement:
    """The product, its peers, and the least worker."""
    return Measurement(
        name="queue_latency",
        title="Submit to the first line of the job on one Valkey server, 2 idle worker processes",
        about="200 submits with pauses of 20 to 120 ms (60 to workers that poll), all with their defaults.",
        metrics=tuple(
            Metric(key=f"p{percent}", title=f"{percent} % start within", unit="ms") for percent in (50, 95, 99)
        ),
        cases=tuple(
            Case(system=peer.name, run=partial(_run, peer), at_most=2 if peer.polls else 1_000) for peer in ALL
        ),
    )


def _run(peer: Peer, bench: Bench) -> dict[str, float]:
    count = bench.size(60 if peer.polls else 200, 20)
    with bench.home() as home:
        running = Running(home, peer)
        running.work(_WORKERS)
        running.warm()
        home.ask(running.client("ping", "noop", str(count), "1"))
        begun = {note.key: note.at_ns for note in home.wait_for("begin", count)}
        took_ms = [(begun[note.key] - note.at_ns) / 1e6 for note in home.tape.of("submit")]
    return {f"p{percent}": quantile(took_ms, percent / 100) for percent in (50, 95, 99)}
