"""Events that start runs: told once by anybody, taken once by each workflow that wants them.

An event belongs to the workflows that are subscribed to its name when it comes. If there is none it is deferred: the
first workflows that subscribe to the name take it over, and until then it is there to be seen. Whether a run comes of
it is for the workflow's own code to say (a filter), so a store keeps the event until somebody who has that code
settles it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened. Its id is remembered for `ttl_ms` at least, counted from when it was told.

    To a store the id is one among events of all names; it is made of the name and what the teller gave (core.ids).
    """

    event_id: str
    name: str
    body: bytes
    ttl_ms: int = 7 * 86_400_000


class Emission(StrEnum):
    """What became of an event."""

    accepted = "accepted"
    duplicate = "duplicate"  # its id was told before: nothing was kept


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingEvent:
    """An event that a workflow has still to take; `workflow` is None while nobody wants it.

    `place` orders events as they were told; each store counts its own way.
    """

    event: Event
    workflow: str | None
    emitted_ms: int
    place: int = field(compare=False)

    @property
    def order(self) -> tuple[int, str]:
        """Pages come in this order."""
        return self.place, self.workflow or ""
