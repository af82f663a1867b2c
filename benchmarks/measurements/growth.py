"""What a run costs as runs gather in the store: queued ones in front of it, or finished ones behind it."""

from __future__ import annotations

from functools import partial

from benchmarks.bench import Bench, Launch, module
from benchmarks.figures import Case, Measurement, Metric
from benchmarks.systems.valkey import Server

_SIZES = (1_000, 10_000, 100_000, 1_000_000)
_KINDS = {"queued": "submit", "finished": "live"}
_BATCH = 2_000
# filled for minutes
_AT_MOST = {100_000: 2, 1_000_000: 1}
_PATIENCE_S = 1_800.0


def measurement() -> Measurement:
    """The product's store at four sizes, of two kinds."""
    verbs = {"submit": "a submit", "claim": "a claim", "finish": "an ending"}
    return Measurement(
        name="growth",
        title="A run more, as runs gather in a store on Valkey",
        about=(
            f"The store's verbs, 50 under way: {_BATCH:,} submits, then as many claims, then endings. Server's time: "
            "in its scripts. Memory: what the server uses more since it was empty, per run that is there."
        ),
        metrics=(
            *(Metric(key=key, title=f"server's time for {title}", unit="µs") for key, title in verbs.items()),
            Metric(key="whole", title="all three with the client", unit="µs"),
            Metric(key="memory", title="memory of a run", unit="bytes"),
        ),
        cases=tuple(
            Case(system=f"{size:,} {kind}", run=partial(_run, kind, size), at_most=_AT_MOST.get(size, 1_000))
            for kind in _KINDS
            for size in _SIZES
        ),
    )


def _run(kind: str, size: int, bench: Bench) -> dict[str, float]:
    size = bench.size(size, min(size, 2_000))
    with bench.home() as home:
        server = Server(home)
        home.ask(_growing(server, "live", 0, 100))  # what there is but once is there
        empty = server.number("memory", "used_memory")
        home.ask(_growing(server, _KINDS[kind], 100, size), _PATIENCE_S)
        memory = (server.number("memory", "used_memory") - empty) / size
        return home.ask(_growing(server, "batch", 100 + size, bench.size(_BATCH, 200))) | {"memory": memory}


def _growing(server: Server, action: str, first: int, count: int) -> Launch:
    return module("benchmarks.inside.growing", server.url, action, str(first), str(count))
