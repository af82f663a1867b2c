"""`python -m benchmarks`: choose measurements, see one table for each."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import click

from benchmarks.bench import Bench
from benchmarks.figures import Measurement
from benchmarks.machine import describe
from benchmarks.measurements import MEASUREMENTS
from benchmarks.report import keep, table
from benchmarks.runner import measure

_RESULTS = Path(__file__).with_name("results.json")


@click.command(epilog="Example: python -m benchmarks throughput latency --repeats 5")
@click.argument("names", nargs=-1, type=click.Choice(list(MEASUREMENTS)))
@click.option("--list", "only_list", is_flag=True, help="Name the measurements and end.")
@click.option("--repeats", default=5, show_default=True, type=click.IntRange(1), help="Rounds over all systems.")
@click.option("--quick", is_flag=True, help="One round of small sizes: a sign that all works; nothing is kept.")
@click.option("--system", "systems", multiple=True, help="Ask only systems whose names begin so; repeatable.")
@click.option(
    "--folder", type=click.Path(path_type=Path), help="A place on the disk to measure; unset, the temporary one."
)
@click.option("--results", type=click.Path(path_type=Path), default=_RESULTS, help="The file that keeps the figures.")
def main(
    *,
    names: tuple[str, ...],
    only_list: bool,
    repeats: int,
    quick: bool,
    systems: tuple[str, ...],
    folder: Path | None,
    results: Path,
) -> None:
    """Measure Pyrula beside its peers and the machine's limits; all measurements unless some are named."""
    if only_list:
        for name, make in MEASUREMENTS.items():
            click.echo(f"{name:15}{make().title}")
        return
    for name in names or MEASUREMENTS:
        measurement = _asked(MEASUREMENTS[name](), systems)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            rounds = 1 if quick else min(repeats, max(case.at_most for case in measurement.cases))
            found, calibrations = measure(measurement, Bench(folder=Path(scratch), quick=quick), rounds, _tell)
        machine = describe(calibrations)
        click.echo(f"{table(measurement, found, machine, rounds)}\n")
        if not quick and not systems:
            keep(results, measurement, found, machine)


def _asked(measurement: Measurement, systems: tuple[str, ...]) -> Measurement:
    cases = tuple(case for case in measurement.cases if not systems or case.system.startswith(systems))
    return replace(measurement, cases=cases or measurement.cases)


def _tell(progress: str) -> None:
    if sys.stderr.isatty():
        click.echo(progress, err=True)


if __name__ == "__main__":
    main()
