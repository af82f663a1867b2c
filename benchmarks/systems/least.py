"""The least that could serve a durable submit: the floor for latencies and cold starts, no product."""

from __future__ import annotations

from benchmarks.bench import Home, Launch, module


class Least:
    """A row, a datagram, and a process that reads the row."""

    name = "least possible"
    count_done = "SELECT count(*) FROM run"

    def prepare(self, home: Home) -> None:
        home.ask(self.client(home, "fill", "noop", 0))

    def worker(self, home: Home, name: str = "1") -> Launch:
        return module("benchmarks.inside.least_worker", str(home.db))

    def client(self, home: Home, action: str, workflow: str, count: int, in_flight: int = 1) -> Launch:
        return module("benchmarks.inside.least_client", str(home.db), action, str(count))
