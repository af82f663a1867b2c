"""What a worker knows of its own health: the facts that probes, logs and the supervisor read.

Liveness: the control thread turns (whoever answers proves that) and no background loop has died. Readiness: the store
can be used, and the worker is not draining. A store outage is never a reason to restart a worker.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

log = logging.getLogger("pyrula.worker")


@dataclass(slots=True)
class Health:
    """Mutable facts, touched on the control thread only."""

    started: bool = False
    draining: bool = False
    failed_loop: str = ""
    store_fault: str = ""
    _told: set[str] = field(default_factory=set)

    def store_answered(self) -> None:
        """The store did what was asked."""
        if self.store_fault:
            log.warning("the store answers again")
            self.store_fault = ""
            self._told.clear()

    def store_failed(self, error: Exception) -> None:
        """The store could not be used; told once per reason and outage."""
        self.store_fault = str(error)
        if self.store_fault not in self._told:
            self._told.add(self.store_fault)
            log.error("not ready: %s", error)

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
