"""What black box, watchdog and attribution cost per step of the loop, and per run."""

from __future__ import annotations

from functools import partial

from benchmarks.bench import Bench, module
from benchmarks.figures import Case, Measurement, Metric

_LOOPS = {"lane": "recorded", "lane, no black box": "unrecorded", "asyncio alone": "asyncio"}


def measurement() -> Measurement:
    """A lane as it is, the same without its black box, and a bare loop."""
    return Measurement(
        name="attribution",
        title="Whose code runs: what it costs to write that down",
        about=(
            "A step: a task that sleeps for 0 s is resumed once, in the context of a run's step. What recording costs "
            "a step is the difference to asyncio alone. A run: it comes to the black box and leaves it."
        ),
        metrics=(
            Metric(key="step", title="a step of the loop", unit="ns"),
            Metric(key="span", title="of it, entering and leaving the black box", unit="ns"),
            Metric(key="thread", title="code in a thread entered and left", unit="ns"),
            Metric(key="run", title="a run held and dropped", unit="ns"),
        ),
        cases=tuple(Case(system=name, run=partial(_run, loop), at_most=3) for name, loop in _LOOPS.items()),
    )


def _run(loop: str, bench: Bench) -> dict[str, float]:
    with bench.home() as home:
        return home.ask(module("benchmarks.inside.attribution", loop, str(bench.size(300_000, 5_000))))
