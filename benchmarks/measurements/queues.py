"""No-op jobs a second through queues on one server: submitted, drained from a backlog, and from end to end."""

from __future__ import annotations

import time
from functools import partial

from benchmarks.bench import Bench, Home, Unfit, module
from benchmarks.figures import Case, Measurement, Metric
from benchmarks.measurements.draining import each_once, per_s
from benchmarks.systems.peers import ALL, Peer, Running
from benchmarks.systems.valkey import Server

WORKERS = 2
_AT_MOST = {"rq": 3, "arq": 3}
_PATIENCE_S = 30.0
_RATES = {
    "submit_1": "submitted one by one",
    "submit_50": "submitted, 50 in flight",
    "drain": "drained",
    "through": "end to end",
}


def measurement() -> Measurement:
    """The product, its peers, the least worker, and the server alone."""
    return Measurement(
        name="queues",
        title="No-op jobs a second on one Valkey server, 2 worker processes",
        about=(
            "All with their defaults on the same kind of server (append-only file, fsync every second). Drained: a "
            "backlog, from when both processes are at it. End to end: submitted as fast as it goes to idle workers, "
            "from the first submit to the last job. Clients that know no loop submit one after another. Least "
            "possible: a blocking pop, at most once. Server alone: the least scripts that a durable run needs, 50 "
            "in a write."
        ),
        metrics=(
            *(Metric(key=key, title=title, unit="/s", more_is_better=True) for key, title in _RATES.items()),
            Metric(key="again", title="done more than once", unit="jobs"),
        ),
        cases=(
            *(Case(system=peer.name, run=partial(_run, peer), at_most=_AT_MOST.get(peer.name, 1_000)) for peer in ALL),
            Case(system="server alone", run=_server_alone),
        ),
    )


def _run(peer: Peer, bench: Bench) -> dict[str, float]:
    count = bench.size(peer.jobs, 50)
    found = {}
    with bench.home() as home:
        submitted = home.ask(Running(home, peer).fill("noop", max(count // 4, 50), 1))
        found["submit_1"] = submitted["per_s"]
    with bench.home() as home:
        running = Running(home, peer)
        submitted = home.ask(running.fill("noop", count, peer.in_flight))
        if peer.abreast:
            found["submit_50"] = submitted["per_s"]
        running.work(WORKERS)
        begun, again = each_once(home, "begin", count)
        _check_done(running, count)
        found["drain"] = per_s(begun, begun, WORKERS)
        found["through"], more = _through(running, count)
    return found | {"again": again + more}


def _through(running: Running, count: int) -> tuple[float, int]:
    """Jobs a second to workers that wait for them, and how many were done again."""
    home = running.home
    running.warm()
    home.start(running.fill("noop", count, running.peer.in_flight))
    begun, again = each_once(home, "begin", count)
    return count / ((begun[-1].at_ns - home.tape.of("filling")[0].at_ns) / 1e9), again


def _check_done(running: Running, count: int) -> None:
    """Where the queue keeps what is done, all must be before long."""
    deadline = time.monotonic() + _PATIENCE_S
    while running.peer.done and (done := int(running.server.ask(*running.peer.done))) != count:
        if time.monotonic() > deadline:
            raise Unfit(f"{running.peer.name}: {done} of {count} jobs are done")
        time.sleep(0.1)


def _server_alone(bench: Bench) -> dict[str, float]:
    count = bench.size(50_000, 400)
    return {
        "submit_1": _raw(bench, "single", count // 4, 0),
        "submit_50": _raw(bench, "grouped", count, 0),
        "drain": drained_alone(bench, count, 0),
    }


def drained_alone(bench: Bench, count: int, steps: int) -> float:
    """Runs a second that two processes claim and end, with nothing but scripts."""
    return _raw(bench, "grouped", count, WORKERS, steps)


def _raw(bench: Bench, how: str, count: int, workers: int, steps: int = 0) -> float:
    with bench.home() as home:
        server = Server(home)
        _alone(home, server, how, count)
        if not workers:
            return count / home.span_s("begin", "end", 1)
        home.tape.forget()
        for _ in range(workers):
            _start_alone(home, server, steps)
        return count / home.span_s("begin", "end", workers)


def _alone(home: Home, server: Server, how: str, count: int) -> None:
    home.ask(module("benchmarks.inside.raw_valkey", server.url, how, str(count)))


def _start_alone(home: Home, server: Server, steps: int) -> None:
    home.start(module("benchmarks.inside.raw_valkey", server.url, "drain", str(steps)))
