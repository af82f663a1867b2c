"""Who the supervisor names, as its status document comes in every second."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


class Names:
    """The runs that were named so far, and what was said."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._since_ms = time.time() * 1000
        self._told: set[tuple[int, str]] = set()
        self._first_ms: dict[str, float] = {}

    def heard(self, document: dict[str, Any]) -> None:
        """Look for what is new in a status document."""
        for row in document["children"]:
            if row["blocked"]:
                self._first_ms.setdefault(row["blocked"]["run_id"], time.time() * 1000)
        for incident in reversed(document["incidents"]):
            key = (incident["at_ms"], incident["text"])
            if key not in self._told:
                self._told.add(key)
                self._first_ms.setdefault(incident["run_id"], incident["at_ms"])
                self._say(f"{(incident['at_ms'] - self._since_ms) / 1000:5.1f} s  {incident['text']}")

    def first_s(self, run: dict[str, Any]) -> float | None:
        """How many seconds after its submit a run was named for the first time; None: never."""
        at_ms = self._first_ms.get(run["run_id"])
        return None if at_ms is None else max(0.0, (at_ms - run["created_ms"]) / 1000)
