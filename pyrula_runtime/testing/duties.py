"""What goes on beside the worker of a simulation: timers, and the schedules and events of the workflows at work there.

These are the duties of a real clerk and of a worker's control thread, on the simulation's loop: each is made when the
store rings for it or its own alarm does, and an alarm is a timer of the loop, so time jumps to it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from pyrula_runtime.duties.declaring import Declaring
from pyrula_runtime.duties.fan_out import FanOut
from pyrula_runtime.duties.schedules import Schedules
from pyrula_runtime.duties.timers import Timers
from pyrula_runtime.engine.payloads import PLAIN
from pyrula_runtime.engine.program import Program
from pyrula_runtime.stores.protocol import Store, Wake

# how often schedules are looked at that wait for the end of a run, and of which nobody was told (seconds)
_POLL_S = 30.0
# who declares them
_CLERK = "simulated-clerk"


class Duties:
    """One simulation's. Everything on the loop's thread."""

    def __init__(self, store: Store, mono_ms: Callable[[], int], programs: Sequence[Program]) -> None:
        """`programs` are those whose schedules and events are at work."""
        self._store = store
        self._asked: dict[str, None] = {}
        self._acts: dict[str, Callable[[], Awaitable[None]]] = {}
        self._stops: list[Callable[[], None]] = []
        timers = Timers(store, lambda: self._ask("timers"))
        self._add("timers", timers.act, timers.stop)
        if programs:
            declaring = Declaring(store, programs, _CLERK)
            schedules = Schedules(store, lambda: self._ask("schedules"), mono_ms, poll_s=_POLL_S)
            events = FanOut(store, programs, PLAIN, mono_ms)
            self._add("declaring", declaring.act)
            self._add("schedules", schedules.act, schedules.stop)
            self._add("events", events.act, events.stop)

    def open(self) -> None:
        """Hear of what concerns them."""
        self._store.listen(lambda _wake: self._ask("timers", "schedules", "events"), frozenset({Wake.timer}))

    def stop(self) -> None:
        """Come no more."""
        for stop in self._stops:
            stop()

    async def look(self) -> bool:
        """Do what has been asked for; whether anything has."""
        asked, self._asked = self._asked, {}
        for name in asked:
            await self._acts[name]()
        return bool(asked)

    def _add(self, name: str, act: Callable[[], Awaitable[None]], stop: Callable[[], None] | None = None) -> None:
        self._acts[name] = act
        if stop is not None:
            self._stops.append(stop)
        self._ask(name)

    def _ask(self, *names: str) -> None:
        self._asked |= dict.fromkeys(name for name in names if name in self._acts)
