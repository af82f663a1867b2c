"""A client on the store that flag and environment name, for the length of one command."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.options import CODEC, DAY_S, given

if TYPE_CHECKING:
    from pyrula_runtime.client.workflow_client import WorkflowClient
    from pyrula_runtime.engine.payloads import Codec
    from pyrula_runtime.stores.protocol import Store

Answer = TypeVar("Answer")

# how the address of an embedded store begins
FILE = "sqlite:///"


def ask(
    store_url: str | None,
    work: Callable[[WorkflowClient, Store], Awaitable[Answer]],
    key_ttl_s: float = DAY_S,
    *,
    makes: bool = False,
) -> Answer:
    """Do the work with an open client and its store; both are closed whatever comes.

    Idempotency keys that it submits with find their run for `key_ttl_s`. Without `makes` it is work on what a store
    has, which no file that is made for it could have: UsageError if there is none, since the address has a typo then.
    """
    from pyrula_runtime.client.opening import open_store
    from pyrula_runtime.client.workflow_client import WorkflowClient

    codec = _codec(given([CODEC], os.environ, {})[CODEC.key])

    logging.basicConfig(format="pyrula: %(message)s", level=logging.WARNING)

    async def working() -> Answer:
        store = open_store(store_url)
        if not makes:
            _must_exist(store)
        client = WorkflowClient(store, idempotency_ttl=key_ttl_s, codec=codec)
        try:
            await store.open()
            return await work(client, store)
        finally:
            await client.close()

    return asyncio.run(working())


def _must_exist(store: Store) -> None:
    """UsageError if the store would be a new file; one that was lost (its lock is there) is told by opening it."""
    if not store.url.startswith(FILE):
        return
    from pyrula_runtime.stores.sqlite.connection import beside

    path = Path(store.url.removeprefix(FILE))
    if not path.exists() and not beside(path, ".lock").exists():
        raise UsageError(f"there is no store at {path}; check the store URL, or start a worker, which makes one")


def _codec(target: str | None) -> Codec | None:
    """The codec that the environment names; the app's module is imported for it."""
    if target is None:
        return None
    from pyrula_runtime.workflows.app import codec

    return codec(target)


def as_json(tree: object) -> str:
    """A document for programs: indented, in the order in which it was made."""
    import orjson

    return orjson.dumps(tree, option=orjson.OPT_INDENT_2).decode()


def compact(tree: object) -> str:
    """A value on one line."""
    import orjson

    return orjson.dumps(tree).decode()
