"""What a worker knows of its own health: the facts that probes, logs and the supervisor read.

Liveness: the control thread turns (whoever answers proves that) and no background loop has died. Readiness: the store
can be used, and the worker is not draining. A store outage is never a reason to restart a worker.

Any call that fails may say that the store cannot be used; only a call that proved a right to write (the store's `ping`)
may say that it can again. Otherwise the idle looks of a worker, which write nothing, would outvote its failing commits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

log = logging.getLogger("pyrula.worker")


@dataclass(slots=True)
class Health:
    """Mutable facts, touched on the control thread only."""

    started: bool = False
    draining: bool = False
    failed_loop: str = ""
    store_fault: str = ""
    on_doubt: Callable[[], None] = lambda: None  # the store begins to fail: prove soon whether it can be used
    _told: set[str] = field(default_factory=set)

    def store_answered(self) -> None:
        """The store can be written."""
        if self.store_fault:
            log.warning("the store answers again")
            self.store_fault = ""
            self._told.clear()

    def store_failed(self, error: Exception) -> None:
        """The store could not be used; told once per reason and outage."""
        is_news = not self.store_fault
        self.store_fault = str(error)
        if self.store_fault not in self._told:
            self._told.add(self.store_fault)
            log.error("not ready: %s", error)
        if is_news:
            self.on_doubt()

    def loop_failed(self, name: str) -> None:
        """A background loop died."""
        self.failed_loop = self.failed_loop or name

    @property
    def is_live(self) -> bool:
        """For `/livez`."""
        return not self.failed_loop

    @property
    def status(self) -> str:
        """For `/readyz`: `ok` or the reason why not, in one word."""
        if self.failed_loop:
            return "loop_failed"
        if self.draining:
            return "draining"
        if not self.started:
            return "starting"
        return "store_unavailable" if self.store_fault else "ok"
