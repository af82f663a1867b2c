"""Why somebody is woken who listens to a store."""

from __future__ import annotations

from enum import Enum
from typing import Protocol


class Wake(Enum):
    """Why a listener is woken. A wake is a hint: it may come twice or for nothing, and a lost one is made up for."""

    ready = "ready"  # a run became claimable
    attention = "attention"  # a held run was cancelled or taken away, or a message came for it: renew now
    ended = "ended"  # a run reached a terminal status
    lease = "lease"  # a share of the shards has changed, or their number: look at the leases
    timer = "timer"  # an earlier due time was written, or an event waits: look at timers, schedules and events


EVERY_WAKE = frozenset(Wake)


class Listening(Protocol):
    """A subscription to wakes."""

    def close(self) -> None:
        """End it; no callback comes afterwards."""
