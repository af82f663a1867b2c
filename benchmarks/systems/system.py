"""What the measurements need to know of a system: how to make its store, start a worker, and submit."""

from __future__ import annotations

from typing import Protocol

from benchmarks.bench import Home, Launch


class System(Protocol):
    """A system under test. Its workflows note `begin` in their first line and `end` in their last."""

    @property
    def name(self) -> str:
        """Its column."""

    @property
    def count_done(self) -> str:
        """SQL that counts the runs that its store knows as done."""

    def prepare(self, home: Home) -> None:
        """Make an empty store."""

    def worker(self, home: Home, name: str = "1") -> Launch:
        """One worker process with its defaults; `name` tells those of one home apart."""

    def client(self, home: Home, action: str, workflow: str, count: int, in_flight: int = 1) -> Launch:
        """A process that submits: `fill` or `ping`, see `benchmarks.load`."""
