"""A client's way into its store: opened at the first use, closed with the client, and one record read at a time.

With it go the payloads: how this client writes and reads what users put into the store.
"""

from __future__ import annotations

from pyrula_runtime.core.errors import RunNotFound, UsageError
from pyrula_runtime.engine.payloads import PLAIN, Payloads
from pyrula_runtime.stores.protocol import Amendment, RunRecord, Store

CLOSED = "this client has been closed; make a new one"


class Door:
    """The store behind one client."""

    def __init__(self, store: Store, payloads: Payloads = PLAIN) -> None:
        self.payloads = payloads
        self._store = store
        self._is_open = False
        self._is_closed = False

    async def store(self) -> Store:
        """The store, open. UsageError after `close`."""
        self._check()
        if not self._is_open:
            await self._store.open()
            try:
                self._check()
            except UsageError:  # `close` came meanwhile, and found nothing open yet
                await self._store.close()
                raise
            self._is_open = True
        return self._store

    def _check(self) -> None:
        if self._is_closed:
            raise UsageError(CLOSED)

    async def close(self) -> None:
        """Close the store. Idempotent."""
        self._is_closed = True
        await self._store.close()

    async def record(self, run_id: str) -> RunRecord:
        """The run as it stands; RunNotFound if there is none."""
        store = await self.store()
        record = await store.read(run_id)
        if record is None:
            raise RunNotFound(run_id)
        return record

    async def journal(self, record: RunRecord) -> list[bytes]:
        """The run's journal, as long as the record says."""
        store = await self.store()
        entries: list[bytes] = []
        while len(entries) < record.journal_len:
            page = await store.read_journal(record.run_id, len(entries))
            if not page:
                raise RunNotFound(record.run_id)
            entries.extend(page)
        return entries[: record.journal_len]

    async def amend(self, amendment: Amendment) -> bool:
        """Apply an operator's change; False if the run is not as it was read any more."""
        store = await self.store()
        return await store.amend(amendment)
