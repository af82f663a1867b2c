"""What a measurement is: cases that yield figures, and how many figures of one kind become one."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.bench import Bench


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One line of a table; without a unit it is told in words. `more_is_better` says which way a ratio should go."""

    key: str
    title: str
    unit: str = ""
    more_is_better: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One system in one measurement: called once a repeat, it yields figures by the metric's key.

    A figure that never came (a run that was not resumed within the patience) is infinite. What no figure can tell is
    told in words.
    """

    system: str
    run: Callable[[Bench], Mapping[str, float | str | Sequence[float]]]
    at_most: int = 1_000  # repeats, for what takes minutes to say nothing new


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A question, and who is asked: the ratios are about the first. Cases of one system share its column."""

    name: str
    title: str
    about: str
    metrics: tuple[Metric, ...]
    cases: tuple[Case, ...]


@dataclass(slots=True)
class Series:
    """All the figures of one metric of one system; several may come from one repeat. Or words, then the last ones."""

    values: list[float] = field(default_factory=list)
    words: str = ""

    def add(self, found: float | str | Sequence[float]) -> None:
        """Take what one repeat yielded."""
        if isinstance(found, str):
            self.words = found
            return
        self.values += [found] if isinstance(found, int | float) else found

    @property
    def is_ratable(self) -> bool:
        """Whether another figure can be divided by this one, and this one by it."""
        return bool(self.values) and self.median != 0 and not math.isinf(self.median)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def least(self) -> float:
        return min(self.values)

    @property
    def greatest(self) -> float:
        return max(self.values)


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of the values lie (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


# metric key -> system -> series
Found = dict[str, dict[str, Series]]
