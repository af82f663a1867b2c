"""`crash_everywhere`: one story played undisturbed, and then once for each place at which its worker can crash.

A crash may cost time and repeat steps, but must not change what comes of runs. So the same is compared each time: what
the story gives, and of each run its end and the outcome of each of its operations. Not compared are times, failed
attempts and the order of outcomes: steps that run side by side end in any order.

A run that is cancelled before its code begins has no operations. If its worker crashes first, the next one cannot know
that no code has run, so it lets the code unwind. Of a run that is cancelled in both plays, and whose code ran in one of
them alone, only the end is compared.

The story is played undisturbed twice: what differs then already is no matter of crashes, but of code that does not
repeat itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyrula_runtime.core.entries import Completed, Failed, Withdrawn, in_force
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.payloads import PLAIN
from pyrula_runtime.testing.simulation import START, Simulation
from pyrula_runtime.workflows.registry import AnyWorkflow

Story = Callable[[Simulation], Any]


@dataclass(frozen=True, slots=True)
class _Outcomes:
    """What came of a play: how all ended, the operations of each run, and which runs were cancelled; all by names."""

    ends: dict[str, Any]
    operations: dict[str, dict[str, Any]]
    cancelled: set[str]


# differences that a message tells of one play, and plays of which it tells
_TOLD, _TOLD_PLAYS = 4, 5


class CrashNotSurvived(AssertionError):
    """Crashes change what comes of runs; `places` are the numbers of those that do, for `Simulation(crash_at=...)`."""

    def __init__(self, message: str, places: Sequence[int]) -> None:
        super().__init__(message)
        self.places = tuple(places)


def crash_everywhere(
    story: Story,
    *,
    workflows: Sequence[AnyWorkflow] = (),
    fakes: Mapping[Any, Any] | None = None,
    start: datetime = START,
    patience: float = 30.0,
) -> Sequence[str]:
    """Play a story once for each place at which a worker can crash; the places, if nothing differs anywhere.

    story: a function that is given a Simulation, starts runs there and does with them what it likes, such as
        `lambda simulation: simulation.run(process_order, order).result()`. What it returns is compared.
    workflows, fakes, start, patience: as for Simulation; every play begins with them anew.

    Raises CrashNotSurvived with all that differs.
    """

    def played(crash_at: int) -> tuple[_Outcomes, Sequence[str]]:
        with Simulation(
            workflows=workflows, fakes=fakes, start=start, patience=patience, crash_at=crash_at
        ) as simulation:
            try:
                value = story(simulation)
            except Exception as error:
                if 0 < crash_at <= len(simulation.places):
                    error.add_note(f"This was with a crash at place {crash_at}, {simulation.places[crash_at - 1]}.")
                raise
            return _outcomes(simulation, value), simulation.places

    expected, places = played(0)
    again, _ = played(0)
    if differences := _differences(expected, again):
        raise CrashNotSurvived(
            f"Played twice without any crash, the story does not come out the same: {differences}. Let it start the "
            f"same runs each time, and fake the steps that give something else each time.",
            (),
        )
    faults: dict[int, str] = {}
    for number in range(1, len(places) + 1):
        outcomes, _ = played(number)
        if differences := _differences(expected, outcomes):
            faults[number] = differences
    if faults:
        told = [f"place {number}, {places[number - 1]}: {faults[number]}" for number in list(faults)[:_TOLD_PLAYS]]
        more = len(faults) - len(told)
        rest = f"\nand {more} more" if more else ""
        raise CrashNotSurvived(
            f"{len(faults)} of {len(places)} crashes change what comes of it; to see one by itself: "
            f"Simulation(crash_at={next(iter(faults))})\n" + "\n".join(told) + rest,
            list(faults),
        )
    return places


def _outcomes(simulation: Simulation, value: Any) -> _Outcomes:
    outcomes = _Outcomes({"the story's value": value}, {}, set())
    for run in simulation.runs:
        record = simulation.record_of(run.run_id)
        name = f"run {run.run_id} of {run.workflow!r}"
        outcomes.ends[f"{name}: status"] = run.status.value
        outcomes.ends[f"{name}: result"] = None if record.result is None else PLAIN.load_json(record.result)
        outcomes.ends[f"{name}: error"] = None if run.error is None else str(run.error)
        outcomes.operations[name] = dict(_operations(name, simulation.journal_of(run.run_id)))
        if run.status is RunStatus.cancelled:
            outcomes.cancelled.add(name)
    return outcomes


def _operations(name: str, journal: Sequence[bytes]) -> Iterator[tuple[str, Any]]:
    for _, entry in in_force([PLAIN.load_entry(raw) for raw in journal]):
        if isinstance(entry, Completed):
            yield f"{name}: {entry.op}", entry.value
        elif isinstance(entry, Failed):
            yield f"{name}: {entry.op}", str(entry.error)
        elif isinstance(entry, Withdrawn):
            yield f"{name}: {entry.op}", "withdrawn"


def _compared(outcomes: _Outcomes, with_those: _Outcomes) -> dict[str, Any]:
    """What is compared of a play with another one, by name."""
    compared = dict(outcomes.ends)
    for run, operations in outcomes.operations.items():
        never_began = run in outcomes.cancelled & with_those.cancelled and not with_those.operations[run]
        compared |= {} if never_began else operations
    return compared


def _differences(expected_outcomes: _Outcomes, other_outcomes: _Outcomes) -> str:
    """In words; empty if there are none."""
    nothing = "nothing"
    expected, outcomes = (
        _compared(expected_outcomes, other_outcomes),
        _compared(other_outcomes, expected_outcomes),
    )
    names = list(dict.fromkeys([*expected, *outcomes]))
    told = [
        f"{name} is {_shown(outcomes.get(name, nothing))} instead of {_shown(expected.get(name, nothing))}"
        for name in names
        if outcomes.get(name, nothing) != expected.get(name, nothing)
    ]
    return "; ".join(told[:_TOLD] + ([f"{len(told) - _TOLD} more"] if len(told) > _TOLD else []))


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 200 else f"{shown[:200]}…"
