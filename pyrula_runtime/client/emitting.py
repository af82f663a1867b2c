"""Events to whoever tells them, and to whoever wants to know what became of them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from pyrula_runtime.client import submitting
from pyrula_runtime.client.door import Door
from pyrula_runtime.core.entries import Json
from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.core.ids import checked_name, event_id_of, event_key
from pyrula_runtime.stores.protocol import Emission, Event

_LONGEST_ID = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    """What became of an event that was told. `is_new` is False if one of its name and id was told before."""

    event_id: str
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingEvent:
    """An event that has not been taken yet. `workflow` is who is to take it; None while no workflow wants it."""

    event_id: str
    name: str
    payload: Json
    workflow: str | None
    emitted_ms: int


async def emit(door: Door, name: str, payload: Any, event_id: str | None) -> Emitted:
    """Tell an event."""
    document = payload_of(name, payload)
    told_id = uuid.uuid4().hex if event_id is None else checked_event_id(event_id)
    event = Event(
        event_id=event_key(name, told_id),
        name=name,
        body=submitting.sealed(document, f"the payload of event {name!r}", door.payloads),
    )
    store = await door.store()
    emission = await store.emit(event)
    return Emitted(event_id=told_id, is_new=emission is Emission.accepted)


def payload_of(name: str, payload: Any) -> bytes:
    """What an event carries, as JSON. Raises UsageError for what is no name, InputError, LimitExceeded."""
    return submitting.encode(payload, f"the payload of event {checked_name(name, 'event')!r}")


def checked_event_id(event_id: object) -> str:
    """The id, if an event can have it; UsageError otherwise."""
    if not (isinstance(event_id, str) and 0 < len(event_id) <= _LONGEST_ID and event_id.isprintable()):
        raise UsageError(f"event id {event_id!r} must be 1 to {_LONGEST_ID} printable characters")
    return event_id


async def waiting_events(door: Door, limit: int) -> tuple[WaitingEvent, ...]:
    """Events that nobody has taken yet, oldest first."""
    store = await door.store()
    payloads = door.payloads.for_people()
    return tuple(
        WaitingEvent(
            event_id=event_id_of(each.event.name, each.event.event_id),
            name=each.event.name,
            payload=payloads.load_json(each.event.body),
            workflow=each.workflow,
            emitted_ms=each.emitted_ms,
        )
        for each in await store.events_pending(None, limit)
    )
