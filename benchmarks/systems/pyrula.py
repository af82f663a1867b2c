"""Pyrula on SQLite or another store: `pyrula worker` processes with their defaults, submits through the client."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.bench import Home, Launch, module
from benchmarks.inside import statements


class Pyrula:
    """The product. `counted` workers note each statement that they give to SQLite."""

    name = "Pyrula"
    count_done = "SELECT count(*) FROM run WHERE status = 'completed'"

    def __init__(self, *, counted: bool = False, url: str | None = None) -> None:
        self._url = url
        self._env = {statements.VARIABLE: "1"} if counted else {}

    def url(self, home: Home) -> str:
        """The store's URL."""
        return self._url or f"sqlite:///{home.db}"

    def prepare(self, home: Home) -> None:
        home.ask(self.client(home, "fill", "noop", 0))

    def worker(self, home: Home, name: str = "1") -> Launch:
        arguments = ["worker", "--workflow", "benchmarks.inside.pyrula_app", "--store", self.url(home)]
        return Launch(argv=[str(Path(sys.executable).with_name("pyrula")), *arguments], env=self._env)

    def client(self, home: Home, action: str, workflow: str, count: int, in_flight: int = 1) -> Launch:
        arguments = [self.url(home), action, workflow, str(count), str(in_flight)]
        return module("benchmarks.inside.pyrula_client", *arguments)
