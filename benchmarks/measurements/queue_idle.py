"""What queues on one server cost that have nothing to do: calls to the server, processor."""

from __future__ import annotations

import time
from functools import partial

from benchmarks.bench import Bench
from benchmarks.figures import Case, Measurement, Metric
from benchmarks.processes import become_subreaper, end_orphans, tree_busy_s
from benchmarks.systems.peers import PEERS, PYRULA, Peer, Running
from benchmarks.systems.supervisor import Given, supervised
from benchmarks.systems.valkey import Server

_PROCS = 4
_WARM = 20
_SETTLE_S = 3.0


def measurement() -> Measurement:
    """The product under its supervisor, and its peers."""
    return Measurement(
        name="queue_idle",
        title="Idle queues on one Valkey server, 4 worker processes",
        about=(
            f"A window of 20 s, {_SETTLE_S:.0f} s after {_WARM} no-op jobs. Pyrula: 4 workers under its supervisor, 6 "
            "workflows. Calls: what clients send; what their scripts call in the server is not counted."
        ),
        metrics=(
            Metric(key="calls", title="calls to the server", unit="/s"),
            Metric(key="cpu", title="processor, all processes but the server", unit="% of a core"),
            Metric(key="server", title="the server's processor", unit="% of a core"),
        ),
        cases=(
            Case(system="Pyrula", run=_pyrula),
            *(Case(system=peer.name, run=partial(_peer, peer), at_most=3) for peer in PEERS),
        ),
    )


def _pyrula(bench: Bench) -> dict[str, float]:
    become_subreaper()
    try:
        with bench.home() as home:
            running = Running(home, PYRULA)
            given = Given(app=PYRULA.module, procs=_PROCS, store=running.server.url)
            with supervised(home, given) as supervisor:
                supervisor.ready()
                supervisor.settled()
                running.warm()
                return _window(bench, running.server, [supervisor.process.pid])
    finally:
        end_orphans()


def _peer(peer: Peer, bench: Bench) -> dict[str, float]:
    with bench.home() as home:
        running = Running(home, peer)
        running.work(_PROCS)
        running.warm()
        return _window(bench, running.server, [worker.pid for worker in running.workers])


def _window(bench: Bench, server: Server, roots: list[int]) -> dict[str, float]:
    window_s = bench.size(20, 2)
    before_s, server_s, since = tree_busy_s(roots), server.busy_s(), time.monotonic()
    calls = server.calls(window_s)
    took_s = time.monotonic() - since
    return {
        "calls": calls / took_s,
        "cpu": (tree_busy_s(roots) - before_s) / took_s * 100,
        "server": (server.busy_s() - server_s) / took_s * 100,
    }
