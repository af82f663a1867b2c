"""One claim's answer is bounded, however long the journals and inboxes of the runs that it takes: the rest is read."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import replace

from pyrula_runtime.core.status import DELIVERY
from pyrula_runtime.stores.valkey.address import Address
from pyrula_runtime.stores.valkey.store import ValkeyStore
from tests.store.samples import COMPLETED, appending, message, new_run, request

Opened = Callable[..., Awaitable[ValkeyStore]]
PAGE = 1_000_000
ENTRY = 300_000


async def test_journals_of_all_that_one_claim_takes_are_a_page_together(opened: Opened, address: Address) -> None:
    store = await opened(address)
    journal = tuple(os.urandom(ENTRY) for _ in range(3))
    runs = [replace(new_run(), journal=journal) for _ in range(3)]
    for run in runs:
        await store.submit(run)
    claims = await store.claim(request(limit=3))
    told = [len(claim.journal) for claim in claims]
    assert told == [3, 1, 0]
    assert sum(told) * ENTRY <= PAGE + ENTRY
    for claim in claims:
        rest = await store.read_journal(claim.token.run_id, len(claim.journal))
        assert (*claim.journal, *rest) == journal
        assert claim.journal_len == 3


async def test_the_same_holds_for_what_a_commit_claims(opened: Opened, address: Address) -> None:
    store = await opened(address)
    await store.submit(new_run())
    (first,) = await store.claim(request(limit=1))
    for _ in range(3):
        await store.submit(replace(new_run(), journal=(os.urandom(2 * ENTRY),) * 2))
    done = await store.commit(appending(first.token, 0, ending=COMPLETED, claim=request(limit=3)))
    assert [len(claim.journal) for claim in done.claims] == [1, 1, 0]


async def test_messages_that_there_is_no_room_for_are_said_to_be_left_out(opened: Opened, address: Address) -> None:
    store = await opened(address)
    full, heard, quiet = new_run(), new_run(), new_run()
    for run in (replace(full, journal=(os.urandom(PAGE),)), heard, quiet):
        await store.submit(run)
    for run_id in (full.run_id, heard.run_id):
        await store.deliver(message(run_id), DELIVERY)
    claims = await store.claim(request(limit=3))
    assert [(claim.inbox, claim.inbox_skipped, claim.inbox_len) for claim in claims] == [
        ((), True, 1),
        ((), True, 1),
        ((), False, 0),
    ]
    assert len(await store.read_inbox(heard.run_id, 0)) == 1
