"""Waiting for runs to end: one subscription to the store's wakes for all who wait in a client, none while nobody does.

A wake says only that some run ended, so whoever waits looks at its own run again. Nobody polls: between wakes a waiter
costs nothing, and a lost wake is made up for by the store's own fallback.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from pyrula_runtime.stores.protocol import Listening, Store, Wake


class Endings:
    """The waiters of one client."""

    def __init__(self) -> None:
        self._waiters: set[asyncio.Event] = set()
        self._listening: Listening | None = None

    @contextmanager
    def watched(self, store: Store) -> Iterator[asyncio.Event]:
        """An event that is set whenever a run may have ended, from now on; clear it before looking."""
        news = asyncio.Event()
        if self._listening is None:
            self._listening = store.listen(lambda _wake: self.look_again(), frozenset({Wake.ended}))
        self._waiters.add(news)
        try:
            yield news
        finally:
            self._waiters.discard(news)
            if not self._waiters:
                self._listening.close()
                self._listening = None

    def look_again(self) -> None:
        """Let everybody who waits look at its run now."""
        for news in self._waiters:
            news.set()
