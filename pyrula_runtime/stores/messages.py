"""What comes into a run from outside: messages in its inbox."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A signal for a run; `message_id` makes its delivery happen once."""

    run_id: str
    message_id: str
    name: str
    body: bytes


class Delivery(StrEnum):
    """What became of a message."""

    delivered = "delivered"
    duplicate = "duplicate"
    ended = "ended"  # the run is in a terminal status: nothing was kept
    unknown = "unknown"  # no such run
