"""A client on the store that flag and environment name, for the length of one command."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from pyrula_runtime.options import DAY_S

if TYPE_CHECKING:
    from pyrula_runtime.client.workflow_client import WorkflowClient
    from pyrula_runtime.stores.protocol import Store

Answer = TypeVar("Answer")


def ask(
    store_url: str | None, work: Callable[[WorkflowClient, Store], Awaitable[Answer]], key_ttl_s: float = DAY_S
) -> Answer:
    """Do the work with an open client and its store; both are closed whatever comes.

    Idempotency keys that it submits with find their run for `key_ttl_s`.
    """
    from pyrula_runtime.client.opening import open_store
    from pyrula_runtime.client.workflow_client import WorkflowClient

    logging.basicConfig(format="pyrula: %(message)s", level=logging.WARNING)

    async def working() -> Answer:
        store = open_store(store_url)
        client = WorkflowClient(store, idempotency_ttl=key_ttl_s)
        try:
            await store.open()
            return await work(client, store)
        finally:
            await client.close()

    return asyncio.run(working())


def as_json(tree: object) -> str:
    """A document for programs: indented, in the order in which it was made."""
    import orjson

    return orjson.dumps(tree, option=orjson.OPT_INDENT_2).decode()


def compact(tree: object) -> str:
    """A value on one line."""
    import orjson

    return orjson.dumps(tree).decode()
