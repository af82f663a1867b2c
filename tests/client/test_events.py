"""Events to whoever tells them."""

from __future__ import annotations

from base64 import b85decode, b85encode
from typing import Any

import pytest

from pyrula.workflows import InputError, LimitExceeded, UsageError, WorkflowClient, open_store
from pyrula.workflows.sync import WorkflowClient as SyncClient
from pyrula_runtime.client.emitting import Emitted


async def test_an_event_is_told_once_by_its_id(client: WorkflowClient) -> None:
    assert await client.emit("order.created", {"total": 5}, id="A-17") == Emitted(event_id="A-17", is_new=True)
    assert await client.emit("order.created", {"total": 6}, id="A-17") == Emitted(event_id="A-17", is_new=False)
    (waiting,) = await client.waiting_events()
    assert (waiting.event_id, waiting.name, waiting.payload) == ("A-17", "order.created", {"total": 5})
    assert waiting.workflow is None
    first, second = await client.emit("order.paid"), await client.emit("order.paid")
    assert first.event_id != second.event_id
    assert [each.payload for each in await client.waiting_events(3)] == [{"total": 5}, None, None]


async def test_an_id_counts_once_for_each_name(client: WorkflowClient) -> None:
    for name, event_id in (("order.created", "A-17"), ("order.paid", "A-17"), ("order", "created/A-17")):
        assert await client.emit(name, None, id=event_id) == Emitted(event_id=event_id, is_new=True)
        assert await client.emit(name, None, id=event_id) == Emitted(event_id=event_id, is_new=False)
    told = [(each.name, each.event_id) for each in await client.waiting_events()]
    assert told == [("order.created", "A-17"), ("order.paid", "A-17"), ("order", "created/A-17")]


@pytest.mark.parametrize(
    ("name", "payload", "event_id", "said"),
    [
        ("order created!", None, None, "event name 'order created!' must be"),
        ("order.created", None, "", "event id '' must be 1 to 512 printable characters"),
        ("order.created", None, "x" * 513, "must be 1 to 512 printable characters"),
        ("order.created", None, "a\n", "must be 1 to 512 printable characters"),
        ("order.created", None, 5, "event id 5 must be"),
    ],
)
async def test_what_is_no_event_is_refused_in_a_sentence(
    client: WorkflowClient, name: str, payload: Any, event_id: Any, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        await client.emit(name, payload, id=event_id)


async def test_what_json_cannot_hold_is_no_payload(client: WorkflowClient) -> None:
    with pytest.raises(InputError, match=r"the payload of event 'order\.created'"):
        await client.emit("order.created", {"at": object()})
    with pytest.raises(LimitExceeded, match=r"the payload of event 'order\.created'"):
        await client.emit("order.created", "x" * 1_000_001)


class Reversible:
    def encode(self, payload: bytes) -> bytes:
        return b85encode(payload)

    def decode(self, payload: bytes) -> bytes:
        return b85decode(payload)


async def test_a_payload_passes_through_the_codec(client: WorkflowClient, url: str) -> None:
    async with WorkflowClient(open_store(url), codec=Reversible()) as sealing:
        await sealing.emit("order.created", {"card": 4711})
        assert [each.payload for each in await sealing.waiting_events()] == [{"card": 4711}]
    (told,) = await client.waiting_events()
    assert "it was encoded by a codec" in str(told.payload)


def test_without_a_loop(sync_client: SyncClient) -> None:
    assert sync_client.emit("order.created", id="A-17").is_new
    assert [each.event_id for each in sync_client.waiting_events()] == ["A-17"]
