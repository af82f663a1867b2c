"""The pages of the parent's HTTP port: which path says what, and with which status."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from pyrula_runtime.core.spans import spoken
from pyrula_runtime.probe import Page
from pyrula_supervisor import metrics, status
from pyrula_supervisor.facts import Facts
from pyrula_supervisor.model import State
from pyrula_supervisor.tables import Phase


class Watched(Protocol):
    """What the pages look at."""

    @property
    def state(self) -> State:
        """What the reducer knows."""

    @property
    def last_pass_ms(self) -> int:
        """When the last supervision pass was completed (monotonic)."""

    def facts(self, now_ms: int) -> Facts:
        """What else is known."""


class Pages:
    """Gives the page of a path."""

    def __init__(self, watched: Watched, pass_limit_ms: int) -> None:
        self._watched = watched
        self._pass_limit_ms = pass_limit_ms
        self._pages: dict[str, Callable[[int], Page]] = {
            "/livez": self._livez,
            "/readyz": self._readyz,
            "/metrics": self._metrics,
            "/status": self._status,
        }

    def __call__(self, path: str) -> Page | None:
        """The page; None if there is none."""
        made = self._pages.get(path)
        return None if made is None else made(time.monotonic_ns() // 1_000_000)

    def document(self) -> dict[str, Any]:
        """The status document, now."""
        return self._document(time.monotonic_ns() // 1_000_000)

    def _document(self, now_ms: int) -> dict[str, Any]:
        wall_ms = time.time_ns() // 1_000_000
        return status.document(self._watched.state, self._watched.facts(now_ms), now_ms, wall_ms)

    def _late(self, now_ms: int) -> list[str]:
        age_ms = now_ms - self._watched.last_pass_ms
        return [] if age_ms <= self._pass_limit_ms else [f"no supervision pass was completed for {spoken(age_ms)}"]

    def _livez(self, now_ms: int) -> Page:
        late = self._late(now_ms)
        return Page.json(503 if late else 200, {"status": "late" if late else "ok", "reasons": late})

    def _readyz(self, now_ms: int) -> Page:
        state = self._watched.state
        reasons = [*status.unready(state, now_ms), *self._late(now_ms)]
        return Page.json(503 if reasons else 200, {"status": _word(state, reasons), "reasons": reasons})

    def _metrics(self, now_ms: int) -> Page:
        told = metrics.text(self._document(now_ms), self._watched.facts(now_ms))
        return Page(status=200, body=told, kind=metrics.KIND)

    def _status(self, now_ms: int) -> Page:
        return Page.json(200, self._document(now_ms))


def _word(state: State, reasons: list[str]) -> str:
    if not reasons:
        return "ok"
    if state.stopping:
        return "draining"
    if state.phase is Phase.starting:
        return "starting"
    return "store_unavailable" if state.queue is not None and not state.queue.store_ok else "not_ready"
