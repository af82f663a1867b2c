"""The door to the store: nothing stays open behind a client that was closed."""

from __future__ import annotations

import asyncio

import pytest

from pyrula.workflows import UsageError, WorkflowClient, open_store


async def test_a_client_closed_during_its_first_call_leaves_no_store_open(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(url)
    opening, closed = asyncio.Event(), asyncio.Event()
    really_open = store.open

    async def open_late() -> None:
        opening.set()
        await closed.wait()
        await really_open()

    monkeypatch.setattr(store, "open", open_late)
    client = WorkflowClient(store)
    calling = asyncio.create_task(client.submit("gated"))
    await opening.wait()
    await client.close()
    closed.set()
    with pytest.raises(UsageError, match="this client has been closed"):
        await calling
    with pytest.raises(UsageError, match="is not open"):
        await store.ping()
