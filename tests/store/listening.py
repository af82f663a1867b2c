"""Listening to a store as another process would."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from pyrula_runtime.stores.protocol import Wake
from tests.store.sites import Site


async def woken_by(site: Site, act: Callable[[], Awaitable[object]], kind: Wake) -> None:
    """Listen as another process for `kind` alone, act, and wait until the wake has come."""
    listener = await site.open()
    rung = asyncio.Event()
    kinds = set()

    def on_wake(wake: Wake) -> None:
        kinds.add(wake)
        rung.set()

    listening = listener.listen(on_wake, frozenset({kind}))
    await act()
    await asyncio.wait_for(rung.wait(), 10)
    listening.close()
    assert kinds == {kind}
