"""What watchdog, black box and attribution cost: on and off, per step of the loop and per run."""

from __future__ import annotations

from functools import partial

from benchmarks.bench import Bench, module
from benchmarks.figures import Case, Measurement, Metric

# what is named in `benchmarks.inside.attribution`
_LOOPS = {"on": "recorded", "off": "asyncio"}


def measurement() -> Measurement:
    """The ratio is what watching costs."""
    return Measurement(
        name="overhead",
        title="Watchdog, black box and attribution, on and off",
        about=(
            "Processor time of one worker process that drains a full queue on SQLite. Off: asyncio's own loop, nothing "
            "written into the black box, no watchdog; all else as it is. A step of the loop: a task that sleeps for "
            "0 s is resumed once, in the context of a run's step."
        ),
        metrics=(
            Metric(key="step", title="a step of the loop", unit="ns"),
            Metric(key="noop", title="a no-op run", unit="µs"),
            Metric(key="five", title="a 5-step run", unit="µs"),
        ),
        cases=tuple(Case(system=kind, run=partial(_run, kind)) for kind in _LOOPS),
    )


def _run(kind: str, bench: Bench) -> dict[str, float]:
    with bench.home() as home:
        step = module("benchmarks.inside.attribution", _LOOPS[kind], str(bench.size(300_000, 5_000)))
        runs = module("benchmarks.inside.overhead", kind, str(bench.size(4_000, 100)))
        return {"step": home.ask(step)["step"], **home.ask(runs)}
