"""What a supervisor and its processes keep in memory, with an app of the usual weight."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import partial

from benchmarks.bench import Bench
from benchmarks.figures import Case, Measurement, Metric
from benchmarks.processes import memory_mb
from benchmarks.systems.realistic import START_METHODS, realistic
from benchmarks.systems.supervisor import Supervised, supervised

_STAGES = {"start": "at the start", "turn": "after a turn in each", "tidy": "after a full collection in each"}
_KINDS = {"uss": "private", "pss": "proportional", "rss": "resident"}
_OTHERS = ("supervisor", "clerk", "template")


def measurement() -> Measurement:
    """All start methods, at three moments of life."""
    total = [Metric(key=f"total_{at}", title=f"all together {when}", unit="MB") for at, when in _STAGES.items()]
    worker = [
        Metric(key=f"{kind}_{at}", title=f"{title} of a worker {when}", unit="MB")
        for at, when in _STAGES.items()
        for kind, title in _KINDS.items()
    ]
    others = [
        Metric(key=f"{kind}_{who}", title=f"{title} of the {who}", unit="MB")
        for who in _OTHERS
        for kind, title in _KINDS.items()
    ]
    return Measurement(
        name="memory",
        title="Memory of four supervised workers",
        about=(
            "The app imports openai, httpx and pydantic; a turn makes clients and uses 60 models. All together: "
            "supervisor, clerk, template and workers, proportional. Of a forked worker, private is what it has over "
            "the template. Warm: the template did once what a turn does. A worker: median of four."
        ),
        metrics=(*total, *worker, *others),
        cases=tuple(Case(system=method, run=partial(_run, method), at_most=1) for method in START_METHODS),
    )


def _run(method: str, bench: Bench) -> dict[str, float]:
    found: dict[str, float] = {}
    with bench.home() as home, supervised(home, realistic(method, "--max-concurrent-runs", "1")) as supervisor:
        workers = supervisor.ready()
        supervisor.settled()
        found |= _weighed(supervisor, workers, "start")
        for at in ("turn", "tidy"):
            supervisor.submit(at, *[f"{at}-{len(workers)}"] * len(workers))
            home.wait_for(at, len(workers))
            found |= _weighed(supervisor, workers, at)
        for who, pid in _others(supervisor).items():
            found |= {f"{kind}_{who}": value for kind, value in memory_mb(pid).items()}
    return found


def _weighed(supervisor: Supervised, workers: Sequence[int], at: str) -> dict[str, float]:
    weights = [memory_mb(pid) for pid in workers]
    total = sum(each["pss"] for each in weights)
    total += sum(memory_mb(pid)["pss"] for pid in _others(supervisor).values())
    medians = {f"{kind}_{at}": statistics.median(each[kind] for each in weights) for kind in _KINDS}
    return {f"total_{at}": total, **medians}


def _others(supervisor: Supervised) -> dict[str, int]:
    document = supervisor.document()
    [clerk] = [row["pid"] for row in document["children"] if row["role"] == "clerk"]
    found = {"supervisor": supervisor.process.pid, "clerk": clerk}
    for row in document["templates"]:
        found["template"] = row["pid"]
    return found
