"""What goes wrong in one process, and when: a plan that a process gets with its order and the seam asks.

A point is the n-th call of a verb (or of any verb) and a phase of it. Calls are counted by verb, because the engine
makes them from two threads: the third commit is the same one every time, the eleventh call is not. A seeded plan takes
its decisions in the order of the calls; the same seed over the same calls decides alike.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.stores.seam import Crossing, Deed, Phase

Tell = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One fault. `verb` may be empty for any, `nth` 0 for every call. deed: kill, stop, raise, lose, twice, tell."""

    verb: str
    nth: int
    phase: str
    deed: str

    def told(self) -> dict[str, Any]:
        """As an order carries it."""
        return {"verb": self.verb, "nth": self.nth, "phase": self.phase, "deed": self.deed}


class Plan:
    """The seam's fault: looks every crossing up in the points."""

    def __init__(self, points: Sequence[Point], tell: Tell, seed: int | None = None, share: float = 0.0) -> None:
        self._points = points
        self._tell = tell
        self._counts = {point.verb: count(1) for point in points}
        self._nth: dict[int, dict[str, int]] = {}
        self._chance = random.Random(seed)
        self._share = share
        self._serving = False

    def __call__(self, crossing: Crossing) -> Deed:
        """What to do at this crossing. The first claim says that the worker serves."""
        if crossing.verb == "claim" and not self._serving:
            self._serving = True
            self._tell({"event": "serving"})
        if crossing.phase is Phase.before:
            self._nth[crossing.number] = {
                verb: next(counter) for verb, counter in self._counts.items() if verb in ("", crossing.verb)
            }
        deed = self._by_chance(crossing.phase)
        nth = self._nth[crossing.number]
        for point in self._points:
            if point.verb in nth and point.phase == crossing.phase and point.nth in (0, nth[point.verb]):
                deed = self._do(point, crossing)
        if crossing.phase is Phase.answered:
            del self._nth[crossing.number]
        return deed

    def _by_chance(self, phase: Phase) -> Deed:
        if self._share == 0 or self._chance.random() >= self._share:
            return Deed.go_on
        return {Phase.before: Deed.twice, Phase.sent: Deed.lose, Phase.answered: Deed.go_on}[phase]

    def _do(self, point: Point, crossing: Crossing) -> Deed:
        match point.deed:
            case "kill":
                self._tell({"event": "killed", "verb": crossing.verb, "phase": crossing.phase})
                os.kill(os.getpid(), signal.SIGKILL)
            case "stop":
                self._tell({"event": "stopped", "verb": crossing.verb})
                os.kill(os.getpid(), signal.SIGSTOP)
            case "raise":
                self._tell({"event": "faulted", "verb": crossing.verb})
                raise StoreUnavailable(f"no way to the store for {crossing.verb}")
            case "break":
                self._tell({"event": "broken", "verb": crossing.verb})
                raise RuntimeError(f"a bug in {crossing.verb}")
            case "tell":
                self._tell({"event": "crossed", "verb": crossing.verb, "phase": crossing.phase})
            case deed:
                self._tell({"event": "faulted", "verb": crossing.verb})
                return Deed(deed)
        return Deed.go_on
