"""Deliver: once per message id, kept when early, refused by ended runs."""

from __future__ import annotations

from pyrula_runtime.core.status import DELIVERY
from pyrula_runtime.stores.protocol import Delivery, Message, Store
from tests.store.samples import COMPLETED, appending, claimed, new_run


def message(run_id: str, message_id: str) -> Message:
    return Message(run_id=run_id, message_id=message_id, name="paid", body=b"{}")


async def test_a_message_is_kept_even_before_anybody_waits_and_once_per_id(store: Store) -> None:
    run = new_run()
    await store.submit(run)
    assert await store.deliver(message(run.run_id, "m1"), DELIVERY) is Delivery.delivered
    assert await store.deliver(message(run.run_id, "m1"), DELIVERY) is Delivery.duplicate
    assert await store.deliver(message(run.run_id, "m2"), DELIVERY) is Delivery.delivered
    record = await store.read(run.run_id)
    assert record is not None
    assert record.inbox_len == 2


async def test_ids_are_per_run(store: Store) -> None:
    first, second = new_run(), new_run()
    for run in (first, second):
        await store.submit(run)
        assert await store.deliver(message(run.run_id, "m"), DELIVERY) is Delivery.delivered


async def test_an_ended_run_keeps_nothing(store: Store) -> None:
    claim = await claimed(store)
    await store.commit(appending(claim.token, 0, ending=COMPLETED))
    assert await store.deliver(message(claim.token.run_id, "m"), DELIVERY) is Delivery.ended
    record = await store.read(claim.token.run_id)
    assert record is not None
    assert record.inbox_len == 0


async def test_there_is_no_inbox_without_a_run(store: Store) -> None:
    assert await store.deliver(message("none", "m"), DELIVERY) is Delivery.unknown
