"""What comes into a run from outside, and what it tells: messages in its inbox, facts for whoever watches it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A signal or a child's outcome for a run; `message_id` makes its delivery happen once."""

    run_id: str
    message_id: str
    name: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A message in an inbox. `seq` numbers the messages of a run from 1 in order of arrival."""

    seq: int
    message_id: str
    name: str
    body: bytes


class Delivery(StrEnum):
    """What became of a message."""

    delivered = "delivered"
    duplicate = "duplicate"
    ended = "ended"  # the run is in a terminal status: nothing was kept
    unknown = "unknown"  # no such run


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something a run told while it was going on; `seq` numbers the facts of a run from 1, without gaps."""

    seq: int
    at_ms: int
    body: bytes
