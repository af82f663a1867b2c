"""Suspend: nothing falls between the last look of a turn and its suspension, and a waiting run is nobody's orphan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyrula_runtime.core.status import DELIVERY, RunStatus
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import Amendment, Append, Ending, Store
from tests.store.samples import (
    DAY_MS,
    SUSPECT,
    TTL_MS,
    appending,
    claimed,
    message,
    new_run,
    request,
    send,
    status_of,
    suspended,
    waiting,
)

NOTHING_SEEN = waiting()


async def cancel(store: Store, run_id: str) -> None:
    record = await store.read(run_id)
    assert record is not None
    assert await store.amend(Amendment(run_id=run_id, rev=record.rev, cancel_requested=True))


async def test_a_message_that_comes_between_the_look_and_the_suspension_sends_the_run_on(store: Store) -> None:
    claim = await claimed(store)
    await send(store, claim.token.run_id, "m")
    committed = await store.commit(appending(claim.token, 0, b"a", ending=NOTHING_SEEN))
    assert (committed.append, committed.inbox_len) == (Append.done, 1)
    (again,) = await store.claim(request())
    assert [(each.seq, each.message_id) for each in again.inbox] == [(1, "m")]
    assert again.journal == (b"a",)


async def test_people_are_told_for_which_messages_a_run_waits_as_long_as_it_does(store: Store) -> None:
    async def awaits() -> str | None:
        record = await store.read(run_id)
        assert record is not None
        return record.awaits

    claim = await claimed(store)
    run_id = claim.token.run_id
    assert await awaits() is None
    ending = waiting(seen=0)
    assert ending.wait is not None
    named = replace(ending, wait=replace(ending.wait, awaits="signal 'weiß'"))
    await store.commit(appending(claim.token, 0, ending=named))
    assert await awaits() == "signal 'weiß'"
    await send(store, run_id, "m")
    assert await awaits() is None
    (again,) = await store.claim(request())
    await store.commit(appending(again.token, 0, ending=waiting(2**40, seen=None)))
    assert await awaits() is None


async def test_a_message_that_the_turn_has_seen_does_not_send_it_on(store: Store) -> None:
    claim = await claimed(store)
    await send(store, claim.token.run_id, "m")
    await store.commit(appending(claim.token, 0, ending=waiting(seen=1)))
    assert await status_of(store, claim.token.run_id) == RunStatus.waiting
    assert await store.claim(request()) == ()


async def test_a_time_that_has_come_meanwhile_sends_the_run_on(store: Store, clock: ManualClock) -> None:
    claim = await claimed(store)
    due_ms = clock.wall_ms() + 5
    clock.move(5)
    await store.commit(appending(claim.token, 0, ending=waiting(due_ms)))
    assert len(await store.claim(request())) == 1


async def test_a_cancel_that_comes_between_the_look_and_the_suspension_sends_the_run_on(store: Store) -> None:
    claim = await claimed(store)
    await cancel(store, claim.token.run_id)
    await store.commit(appending(claim.token, 0, ending=NOTHING_SEEN))
    (again,) = await store.claim(request())
    assert again.cancel_requested


async def test_a_run_that_is_being_unwound_can_wait(store: Store) -> None:
    claim = await claimed(store)
    await cancel(store, claim.token.run_id)
    await store.commit(appending(claim.token, 0, ending=waiting(cancel_seen=True)))
    assert await store.claim(request()) == ()


async def test_the_same_commit_can_take_the_run_that_goes_on(store: Store) -> None:
    claim = await claimed(store)
    await send(store, claim.token.run_id, "m")
    committed = await store.commit(appending(claim.token, 0, ending=NOTHING_SEEN, claim=request()))
    assert [again.token.run_id for again in committed.claims] == [claim.token.run_id]


async def test_a_waiting_run_shows_what_it_waits_for_and_has_no_holder(store: Store, clock: ManualClock) -> None:
    claim = await suspended(store, due_ms=clock.wall_ms() + 7)
    record = await store.read(claim.token.run_id)
    assert record is not None
    assert (record.status, record.due_ms, record.owner) == (RunStatus.waiting, clock.wall_ms() + 7, None)
    assert await store.holdings("w-1") == ()


async def test_a_run_that_sleeps_longer_than_any_lock_is_no_orphan(store: Store, clock: ManualClock) -> None:
    claim = await suspended(store, due_ms=clock.wall_ms() + DAY_MS)
    for _ in range(8):
        clock.move(TTL_MS // 3)
        assert (await store.reclaim_lapsed(RunStatus.queued, TTL_MS, 10)).run_ids == ()
    assert await status_of(store, claim.token.run_id) == RunStatus.waiting


async def test_a_run_that_goes_on_is_in_front_of_what_came_after_it(store: Store) -> None:
    first = await suspended(store)
    await store.submit(new_run())
    await send(store, first.token.run_id, "m")
    (taken,) = await store.claim(request(limit=1))
    assert taken.token.run_id == first.token.run_id


async def test_a_suspect_goes_on_as_a_suspect(store: Store) -> None:
    claim = await claimed(store)
    await store.commit(appending(claim.token, 0, ending=NOTHING_SEEN, dossier=SUSPECT))
    await send(store, claim.token.run_id, "m")
    assert await store.claim(request()) == ()
    assert len(await store.claim(request(suspects=True))) == 1


@pytest.mark.parametrize("mail", [0, 1])
async def test_a_suspension_whose_answer_was_lost_is_repeated_for_nothing(store: Store, mail: int) -> None:
    claim = await claimed(store)
    await send(store, claim.token.run_id, *["m"][:mail])
    commit = appending(claim.token, 0, b"a", ending=NOTHING_SEEN)
    assert (await store.commit(commit)).append is Append.done
    assert (await store.commit(commit)).append is Append.duplicate
    await store.deliver(message(claim.token.run_id), DELIVERY)
    assert (await store.commit(commit)).append is Append.duplicate
    (again,) = await store.claim(request())
    assert (await store.commit(commit)).append is Append.fenced
    assert again.journal == (b"a",)


async def test_a_dead_token_suspends_nothing(store: Store) -> None:
    claim = await claimed(store)
    stale = replace(claim.token, nonce="other")
    assert (await store.commit(appending(stale, 0, ending=NOTHING_SEEN))).append is Append.fenced
    assert await status_of(store, claim.token.run_id) == RunStatus.running


async def test_a_run_goes_on_as_new(store: Store, clock: ManualClock) -> None:
    claim = await claimed(store)
    await send(store, claim.token.run_id, "m1", "m2")
    await store.commit(replace(appending(claim.token, 0, b"a", b"b"), consumed=(1,)))
    clock.move(5)
    ending = Ending(status=RunStatus.queued, again=b'"next"')
    commit = appending(claim.token, 2, b"c", ending=ending)
    committed = await store.commit(commit)
    assert (committed.append, committed.length) == (Append.done, 0)
    assert (await store.commit(commit)).append is Append.duplicate
    (again,) = await store.claim(request())
    assert (again.input, again.journal, again.journal_len, again.journal_bytes) == (b'"next"', (), 0, 0)
    assert (again.generation, again.started_ms) == (2, clock.wall_ms())
    assert [each.message_id for each in again.inbox] == ["m2"]
    assert again.token.fence == claim.token.fence + 1
    assert (await store.commit(commit)).append is Append.fenced
    assert (await store.commit(appending(again.token, 0, b"x"))).append is Append.done
