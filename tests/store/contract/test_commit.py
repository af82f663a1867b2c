"""Commit: a position is written once, under a living token, and a repeated call changes nothing twice."""

from __future__ import annotations

import asyncio

import pytest

from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import Amendment, Append, Ending, Release, Store
from tests.store.samples import COMPLETED, FAILED, TTL_MS, appending, claimed, journal_of, new_run, request
from tests.store.sites import Site


async def test_entries_are_appended_in_order_and_extend_the_lock(store: Store, clock: ManualClock) -> None:
    claim = await claimed(store)
    clock.move(10_000)
    first = await store.commit(appending(claim.token, 0, b"a", b"b"))
    second = await store.commit(appending(claim.token, 2, b"c"))
    assert (first.append, first.length) == (Append.done, 2)
    assert (second.append, second.length) == (Append.done, 3)
    assert await journal_of(store, claim.token.run_id) == [b"a", b"b", b"c"]
    record = await store.read(claim.token.run_id)
    assert record is not None
    assert (record.lock_left_ms, record.journal_len, record.journal_bytes) == (TTL_MS, 3, 3)


async def test_a_lost_answer_repeated_is_a_duplicate(store: Store) -> None:
    # a transport that loses a reply and sends again must not write twice
    claim = await claimed(store)
    commit = appending(claim.token, 0, b"a", b"b")
    await store.commit(commit)
    again = await store.commit(commit)
    assert (again.append, again.length) == (Append.duplicate, 2)
    await store.commit(appending(claim.token, 2, b"c"))
    late = await store.commit(commit)
    assert (late.append, late.length) == (Append.duplicate, 3)
    assert await journal_of(store, claim.token.run_id) == [b"a", b"b", b"c"]


async def test_other_bytes_at_a_written_position_end_the_turn(store: Store) -> None:
    claim = await claimed(store)
    await store.commit(appending(claim.token, 0, b"a"))
    answer = await store.commit(appending(claim.token, 0, b"b"))
    longer = await store.commit(appending(claim.token, 0, b"a", b"b"))
    assert (answer.append, longer.append) == (Append.fenced, Append.fenced)
    assert await journal_of(store, claim.token.run_id) == [b"a"]


async def test_entries_of_an_earlier_holder_are_not_mine(store: Store) -> None:
    claim = await claimed(store)
    await store.commit(appending(claim.token, 0, b"a"))
    await store.release(Release(token=claim.token, status=RunStatus.queued, ready=True))
    (again,) = await store.claim(request())
    assert (await store.commit(appending(again.token, 0, b"a"))).append is Append.fenced
    assert (await store.commit(appending(again.token, 1, b"b"))).append is Append.done


async def test_a_position_beyond_the_end_is_a_gap(store: Store) -> None:
    claim = await claimed(store)
    answer = await store.commit(appending(claim.token, 3, b"d"))
    assert (answer.append, answer.length) == (Append.gap, 0)
    assert await journal_of(store, claim.token.run_id) == []


async def test_a_dead_token_writes_nothing(store: Store) -> None:
    claim = await claimed(store)
    await store.release(Release(token=claim.token, status=RunStatus.queued, ready=True))
    assert (await store.commit(appending(claim.token, 0, b"late"))).append is Append.fenced
    (again,) = await store.claim(request())
    answer = await store.commit(appending(claim.token, 0, b"late", ending=COMPLETED))
    assert (answer.append, answer.length) == (Append.fenced, 0)
    assert (await store.commit(appending(again.token, 0, b"mine"))).append is Append.done
    assert await journal_of(store, claim.token.run_id) == [b"mine"]


@pytest.mark.parametrize("wrong", [Token(run_id="none", fence=1, nonce="n")])
async def test_a_token_of_no_run_is_dead(store: Store, wrong: Token) -> None:
    answer = await store.commit(appending(wrong, 0, b"a"))
    assert (answer.append, answer.length) == (Append.fenced, 0)


async def test_the_right_fence_with_another_nonce_is_dead(store: Store) -> None:
    # a restored backup may repeat fences, never nonces
    claim = await claimed(store)
    forged = Token(run_id=claim.token.run_id, fence=claim.token.fence, nonce="other")
    assert (await store.commit(appending(forged, 0, b"a"))).append is Append.fenced
    assert (await store.renew([forged], TTL_MS)).lost == {claim.token.run_id}
    assert not await store.release(Release(token=forged, status=RunStatus.queued, ready=True))


@pytest.mark.parametrize("ending", [COMPLETED, FAILED, Ending(status=RunStatus.cancelled)])
async def test_an_ending_is_one_write_with_its_entries(store: Store, clock: ManualClock, ending: Ending) -> None:
    claim = await claimed(store)
    clock.move(1_000)
    answer = await store.commit(appending(claim.token, 0, b"last", ending=ending))
    assert (answer.append, answer.length) == (Append.done, 1)
    record = await store.read(claim.token.run_id)
    assert record is not None
    assert (record.status, record.result, record.error) == (ending.status, ending.result, ending.error)
    assert (record.owner, record.lock_left_ms, record.finished_ms, record.rev) == (None, None, clock.wall_ms(), 3)
    assert await store.claim(request()) == ()


async def test_an_ending_repeated_is_a_duplicate_and_any_other_is_refused(store: Store) -> None:
    # two finishes race: one terminal record
    claim = await claimed(store)
    mine = appending(claim.token, 0, b"last", ending=COMPLETED)
    await store.commit(mine)
    assert (await store.commit(mine)).append is Append.duplicate
    for other in (
        appending(claim.token, 0, ending=COMPLETED),
        appending(claim.token, 0, b"last", ending=FAILED),
        appending(claim.token, 0, b"last", ending=Ending(status=RunStatus.completed, result=b'"else"')),
        appending(claim.token, 0, b"other", ending=COMPLETED),
        appending(claim.token, 1, b"more", ending=COMPLETED),
        appending(claim.token, 1, b"more"),
        appending(claim.token, 0, b"last"),
    ):
        assert (await store.commit(other)).append is Append.fenced
    record = await store.read(claim.token.run_id)
    assert record is not None
    assert (record.status, record.result, record.rev) == (RunStatus.completed, b'"done"', 3)


async def test_an_ending_without_entries_repeated_is_a_duplicate(store: Store) -> None:
    claim = await claimed(store)
    ending = appending(claim.token, 0, ending=COMPLETED)
    assert (await store.commit(ending)).append is Append.done
    assert (await store.commit(ending)).append is Append.duplicate


async def test_a_wait_ends_the_turn_and_leaves_no_finish_time(store: Store) -> None:
    claim = await claimed(store)
    await store.commit(appending(claim.token, 0, b"timer", ending=Ending(status=RunStatus.waiting)))
    record = await store.read(claim.token.run_id)
    assert record is not None
    assert (record.status, record.finished_ms, record.owner) == (RunStatus.waiting, None, None)
    assert await store.claim(request()) == ()


async def test_finishing_and_claiming_is_one_call(store: Store) -> None:
    claim = await claimed(store)
    waiting = new_run()
    await store.submit(waiting)
    answer = await store.commit(appending(claim.token, 0, b"last", ending=COMPLETED, claim=request(limit=5)))
    assert [taken.token.run_id for taken in answer.claims] == [waiting.run_id]
    assert (await store.commit(appending(answer.claims[0].token, 0, b"a"))).append is Append.done


async def test_a_commit_that_was_not_done_claims_nothing(store: Store) -> None:
    claim = await claimed(store)
    await store.submit(new_run())
    for commit in (
        appending(claim.token, 1, b"gap", claim=request()),
        appending(Token(run_id="none", fence=1, nonce="n"), 0, claim=request()),
    ):
        assert (await store.commit(commit)).claims == ()


async def test_a_turn_hears_of_its_cancellation_with_any_commit(store: Store) -> None:
    claim = await claimed(store)
    assert not (await store.commit(appending(claim.token, 0, b"a"))).cancel_requested
    assert await store.amend(Amendment(run_id=claim.token.run_id, rev=2, cancel_requested=True))
    assert (await store.commit(appending(claim.token, 1, b"b"))).cancel_requested


async def test_a_lapsed_lock_that_nobody_took_still_commits(store: Store, clock: ManualClock) -> None:
    claim = await claimed(store)
    clock.move(TTL_MS * 3)
    assert (await store.commit(appending(claim.token, 0, b"a"))).append is Append.done


async def test_commits_made_at_once_keep_the_order_of_their_calls(store: Store) -> None:
    claim = await claimed(store)
    answers = await asyncio.gather(*[store.commit(appending(claim.token, at, b"%d" % at)) for at in range(50)])
    assert [answer.length for answer in answers] == list(range(1, 51))


async def test_a_commit_whose_caller_left_is_written_all_the_same(site: Site) -> None:
    store = await site.open()
    claim = await claimed(store)
    future = store.commit(appending(claim.token, 0, b"a"))
    future.cancel()
    # calls of one handle are done in order: an answer to the next one says that the first was done too
    assert (await store.commit(appending(claim.token, 1, b"b"))).append is Append.done
    assert await journal_of(store, claim.token.run_id) == [b"a", b"b"]
