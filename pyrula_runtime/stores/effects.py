"""What a write on one run does to others: part of that write, so a crash leaves all of it done or nothing.

A store that cannot reach all runs in one write keeps the effects in an outbox, as part of the write, and sees to them
right after and again until they are done. Each is therefore harmless when repeated: messages, runs and events by their
ids, a cancel by what it is. No effect has an answer: a message for a run that has ended or never was is dropped, a run
whose id is taken is not made twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyrula_runtime.core.status import Moves
from pyrula_runtime.stores.events import Event
from pyrula_runtime.stores.messages import Message
from pyrula_runtime.stores.runs import NewRun


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverTo:
    """Put a message into another run's inbox, as `deliver` does."""

    message: Message
    moves: Moves


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitRun:
    """Create a run, as `submit` does."""

    run: NewRun


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRun:
    """Request the cancellation of a run and make it claimable if `moves` leads it elsewhere; once.

    No move leads to a terminal status: a run that ends has things to tell, and only its turn knows which.
    """

    run_id: str
    moves: Moves


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitEvent:
    """Tell an event, as `emit` does."""

    event: Event


Effect = DeliverTo | SubmitRun | CancelRun | EmitEvent
