"""Runs pinned to a version, counted; and runs that begin with another's journal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import DELIVERY
from pyrula_runtime.stores.protocol import EVERY_STATUS, Amendment, DeliverTo, Store, Submission, SubmitRun
from tests.store.samples import COMPLETED, appending, claimed, message, new_run, request


async def test_pins_are_counted_until_their_runs_end(store: Store) -> None:
    for version in ("1", "1", "2", None):
        await store.submit(new_run("a", version))
    await store.submit(new_run("b", "1"))
    assert (await store.census(EVERY_STATUS)).pins == {("a", "1"): 2, ("a", "2"): 1, ("b", "1"): 1}
    (claim,) = await store.claim(request(("a", "2"), limit=1))
    assert (await store.census(EVERY_STATUS)).pins == {("a", "1"): 2, ("a", "2"): 1, ("b", "1"): 1}
    await store.commit(appending(claim.token, 0, ending=COMPLETED))
    assert (await store.census(EVERY_STATUS)).pins == {("a", "1"): 2, ("b", "1"): 1}


@pytest.mark.parametrize("as_effect", [False, True], ids=["submit", "effect"])
async def test_a_run_may_begin_with_a_journal(store: Store, *, as_effect: bool) -> None:
    run = replace(new_run("fork"), journal=(b"aa", b"bbb"), generation=3)
    if as_effect:
        parent = await claimed(store)
        await store.commit(replace(appending(parent.token, 0, b"x"), effects=(SubmitRun(run=run),)))
    else:
        assert (await store.submit(run)).submission is Submission.created
    record = await store.read(run.run_id)
    assert record is not None
    assert (record.journal_len, record.journal_bytes, record.generation, record.fence) == (2, 5, 3, 0)
    assert await store.read_journal(run.run_id, 1) == (b"bbb",)
    (claim,) = await store.claim(request(("fork", None)))
    assert (claim.journal, claim.journal_len, claim.journal_bytes, claim.generation) == ((b"aa", b"bbb"), 2, 5, 3)
    done = await store.commit(appending(claim.token, 2, b"c"))
    assert done.length == 3


async def test_a_repeated_submit_writes_its_journal_once(store: Store) -> None:
    run = replace(new_run("fork"), journal=(b"aa", b"bbb"))
    await store.submit(run)
    assert (await store.submit(run)).submission is Submission.existing
    assert await store.read_journal(run.run_id, 0) == run.journal


async def test_a_journal_of_thousands_of_entries_is_taken_whole(store: Store) -> None:
    run = replace(new_run("fork"), journal=tuple(b"%d" % number for number in range(12_000)))
    await store.submit(run)
    (claim,) = await store.claim(request(("fork", None)))
    assert claim.journal_len == 12_000
    assert claim.token == Token(run_id=run.run_id, fence=1, nonce=claim.token.nonce)
    assert (await store.read_journal(run.run_id, 11_999)) == (b"11999",)


async def test_a_fork_begins_with_its_messages_in_one_write_on_another_run(store: Store) -> None:
    source = await claimed(store)
    fork = replace(new_run("fork"), journal=(b"aa",))
    effects = (SubmitRun(run=fork), DeliverTo(message=message(fork.run_id), moves=DELIVERY))
    record = await store.read(source.token.run_id)
    assert record is not None
    amendment = Amendment(run_id=source.token.run_id, rev=record.rev, effects=effects)
    assert not await store.amend(replace(amendment, rev=record.rev + 1))
    assert await store.read(fork.run_id) is None
    assert await store.amend(amendment)
    await store.amend(amendment)  # repeated after a lost answer
    (claim,) = await store.claim(request(("fork", None)))
    assert (claim.journal, [each.message_id for each in claim.inbox]) == ((b"aa",), ["m"])
    assert (await store.renew([source.token], 30_000)).lost == frozenset()  # whoever has the first run keeps it
