"""How long answers of a supervisor take while its workers are well, and while each of them holds its GIL."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable

from benchmarks.bench import Bench
from benchmarks.figures import Case, Measurement, Metric, quantile
from benchmarks.systems.supervisor import Given, Supervised, supervised

_PAGES = ("livez", "readyz", "status")
_SETTLE_S = 1.0
_APART_S = 0.01
_GIVEN = Given(flags=("--max-concurrent-runs", "1"))


def measurement() -> Measurement:
    """Idle, and stuck."""
    titles = {page: f"/{page}" for page in _PAGES} | {"control": "status, control socket"}
    return Measurement(
        name="probes",
        title="Answers of a supervisor of four workers",
        about=(
            "200 requests of each kind, each with a connection of its own, 10 ms apart. Stuck: each worker is in a "
            "regular expression that holds its GIL, so that five processes want the cores."
        ),
        metrics=tuple(
            Metric(key=f"{kind}_{percent}", title=f"{title}: {percent} % within", unit="ms")
            for kind, title in titles.items()
            for percent in (50, 99)
        ),
        cases=(
            Case(system="all stuck, GIL held", run=lambda bench: _run(bench, stuck=True), at_most=1),
            Case(system="all idle", run=lambda bench: _run(bench, stuck=False), at_most=1),
        ),
    )


def _run(bench: Bench, *, stuck: bool) -> dict[str, float]:
    with bench.home() as home, supervised(home, _GIVEN) as supervisor:
        supervisor.ready()
        supervisor.settled()
        if stuck:
            supervisor.stick_all("matches")
        time.sleep(_SETTLE_S)
        found: dict[str, float] = {}
        for kind, ask in _asks(supervisor).items():
            took_ms = [_took_ms(ask) for _ in range(bench.size(200, 10))]
            found |= {f"{kind}_{percent}": quantile(took_ms, percent / 100) for percent in (50, 99)}
        return found


def _asks(supervisor: Supervised) -> dict[str, Callable[[], object]]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def page(name: str) -> Callable[[], object]:
        url = f"http://127.0.0.1:{supervisor.port}/{name}"

        def fetch() -> bytes:
            with opener.open(url, timeout=10) as answer:
                found: bytes = answer.read()
                return found

        return fetch

    return {name: page(name) for name in _PAGES} | {"control": supervisor.document}


def _took_ms(ask: Callable[[], object]) -> float:
    time.sleep(_APART_S)
    before = time.perf_counter()
    ask()
    return (time.perf_counter() - before) * 1000
