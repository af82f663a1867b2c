"""Submitting: once per key, checked at once by function, and nothing lost whatever is wrong."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from pyrula.workflows import (
    IdempotencyConflict,
    InputError,
    LimitExceeded,
    RunStatus,
    StoreUnavailable,
    UsageError,
    WorkflowClient,
    WorkflowContext,
    open_store,
    workflow,
)
from pyrula_runtime.options import IDEMPOTENCY_TTL
from pyrula_runtime.stores.protocol import NewRun, Serves, Submitted, WorkerRecord


class Order(BaseModel):
    order_id: str
    count: int = 1


@dataclass
class Point:
    x: int


@workflow(version="7")
async def pinned(ctx: WorkflowContext, order: Order) -> None: ...


@workflow
async def unpinned(ctx: WorkflowContext, x: int = 0) -> None: ...


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (Order(order_id="o"), {"order_id": "o", "count": 1}),
        ({"order_id": "o", "count": "2"}, {"order_id": "o", "count": "2"}),
    ],
)
async def test_a_run_by_function_is_queued_and_pinned(client: WorkflowClient, given: Any, stored: Any) -> None:
    run = await client.submit(pinned, given)
    told = await client.describe(run.run_id)
    assert (run.workflow, told["status"], told["version"], told["input"]) == ("pinned", "queued", "7", stored)
    assert await run.status() is RunStatus.queued
    assert len(run.run_id) == 26


@pytest.mark.parametrize("given", [None, 3, "text", [1, 2], {"a": None}, Point(1)])
async def test_a_run_by_name_takes_any_json_and_has_no_pin(client: WorkflowClient, given: Any) -> None:
    told = await (await client.submit("pinned", given)).describe()
    assert told["version"] is None
    assert told["input"] == ({"x": 1} if isinstance(given, Point) else given)


async def test_input_is_checked_at_once_by_function(client: WorkflowClient) -> None:
    with pytest.raises(InputError, match="workflow 'pinned': parameter 'order': order_id: Field required"):
        await client.submit(pinned, {})
    with pytest.raises(InputError, match="there is no parameter 'y'"):
        await client.submit(unpinned, {"y": 1})
    assert await client.list() == ()


@pytest.mark.parametrize("given", [math.nan, {"a": object()}, 2**64, "\ud800"])
async def test_input_that_is_no_json_is_refused(client: WorkflowClient, given: Any) -> None:
    with pytest.raises(InputError, match="the input of workflow 'unpinned': "):
        await client.submit("unpinned", given)


async def test_an_input_past_the_limit_is_refused(client: WorkflowClient) -> None:
    with pytest.raises(LimitExceeded, match="the input of workflow 'unpinned' has 1,000,002 bytes"):
        await client.submit("unpinned", "x" * 1_000_000)


@pytest.mark.parametrize("what", ["", len, None])
async def test_what_cannot_be_submitted(client: WorkflowClient, what: Any) -> None:
    with pytest.raises(UsageError):
        await client.submit(what, None)


async def test_the_same_key_and_input_give_the_first_run_back(client: WorkflowClient) -> None:
    first = await client.submit("unpinned", {"a": 1, "b": {"c": 2, "d": 3}}, idempotency_key="k")
    again = await client.submit("unpinned", {"b": {"d": 3, "c": 2}, "a": 1}, idempotency_key="k")
    other = await client.submit("unpinned", {"a": 1, "b": {"c": 2, "d": 3}}, idempotency_key="another")
    assert again == first
    assert hash(again) == hash(first)
    assert other != first
    assert first != client.handle("pinned", first.run_id)


async def test_the_same_key_with_another_input_names_the_first_run(client: WorkflowClient) -> None:
    first = await client.submit("unpinned", {"x": 1}, idempotency_key="k")
    for name, given in (("unpinned", {"x": 2}), ("pinned", {"x": 1})):
        with pytest.raises(IdempotencyConflict, match=first.run_id) as refused:
            await client.submit(name, given, idempotency_key="k")
        assert (refused.value.key, refused.value.run_id) == ("k", first.run_id)
    assert len(await client.list()) == 1


async def test_a_chosen_run_id_is_as_good_as_a_key(client: WorkflowClient) -> None:
    first = await client.submit("unpinned", 1, run_id="order-17")
    assert first.run_id == "order-17"
    assert await client.submit("unpinned", 1, run_id="order-17") == first
    with pytest.raises(UsageError, match="run id 'order-17' is taken by a run of another workflow or input"):
        await client.submit("unpinned", 2, run_id="order-17")


@pytest.mark.parametrize("options", [{"run_id": "a b"}, {"run_id": ""}, {"idempotency_key": ""}])
async def test_ids_and_keys_must_be_such(client: WorkflowClient, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        await client.submit("unpinned", 1, **options)


@pytest.mark.parametrize("key", ["x" * 513, "a\nb", 3, "\ud800"])
async def test_what_is_no_key(client: WorkflowClient, key: Any) -> None:
    with pytest.raises(UsageError, match=r"idempotency key .* must be 1 to 512 printable characters"):
        await client.submit("unpinned", 1, idempotency_key=key)


@pytest.mark.parametrize("name", ["", " x", "a/b", "a\0b", "x" * 129, "\ud800"])
async def test_a_name_that_no_workflow_can_have_is_refused(client: WorkflowClient, name: str) -> None:
    with pytest.raises(UsageError, match=r"workflow name .* must be 1 to 128 letters"):
        await client.submit(name, 1)
    assert await client.list() == ()


async def test_a_name_that_nobody_serves_is_warned_of_once(
    client: WorkflowClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "pyrula.client"):
        await client.submit("unheard_of", 1)
        await client.submit("unheard_of", 1)
        await client.submit("unpinned", 1)
    assert [record.getMessage() for record in caplog.records] == [
        "no worker is connected to this store. Start one: pyrula worker --workflow MODULE:unheard_of "
        "Its runs wait until one serves it."
    ]


async def test_a_name_that_a_worker_serves_is_not_warned_of(url: str, caplog: pytest.LogCaptureFixture) -> None:
    store = open_store(url)
    async with WorkflowClient(store) as client:
        serves = (Serves(workflow="served_elsewhere", version=None),)
        worker = WorkerRecord(
            incarnation="i", worker_id="w", pid=1, host="h", serves=serves, capacity=1, running=0, draining=False
        )
        await store.beat(worker, 60_000)
        with caplog.at_level(logging.WARNING, "pyrula.client"):
            await client.submit("served_elsewhere", 1)
    assert not caplog.records


async def test_an_outage_says_how_to_submit_again(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(url)
    tried: list[NewRun] = []

    async def unavailable(run: NewRun) -> None:
        tried.append(run)
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(store, "submit", unavailable)
    async with WorkflowClient(store) as client:
        with pytest.raises(StoreUnavailable, match=r"the disk is full; .* with run_id='(\w+)', which is safe"):
            await client.submit("unpinned", 1)
        with pytest.raises(StoreUnavailable, match="with the same idempotency key, which is safe"):
            await client.submit("unpinned", 1, idempotency_key="k")
    assert tried[1].idempotency_key == "k"


async def test_a_key_finds_its_run_as_long_as_the_client_says(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(url)
    seen: list[NewRun] = []
    submit = store.submit

    def watched(run: NewRun) -> Awaitable[Submitted]:
        seen.append(run)
        return submit(run)

    monkeypatch.setattr(store, "submit", watched)
    async with WorkflowClient(store, idempotency_ttl=90) as client:
        await client.submit("unpinned", 1, idempotency_key="k")
    assert seen[0].idempotency_ttl_ms == 90_000


def test_the_life_of_keys_has_the_limits_of_the_option(url: str) -> None:
    for seconds in (IDEMPOTENCY_TTL.low, IDEMPOTENCY_TTL.high):
        WorkflowClient(open_store(url), idempotency_ttl=seconds)


@pytest.mark.parametrize("seconds", [0, 0.5, -1, math.nan, math.inf])
def test_an_absurd_life_of_keys_is_refused(url: str, seconds: float) -> None:
    with pytest.raises(UsageError, match="idempotency_ttl"):
        WorkflowClient(open_store(url), idempotency_ttl=seconds)
