"""Release and amend: what a worker or an operator does to a run from outside its code."""

from __future__ import annotations

import pytest

from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import CLEAN, Amendment, Append, Dossier, Release, RunRecord, Store
from tests.store.samples import COMPLETED, FAILED, TTL_MS, appending, claimed, journal_of, new_run, request


async def record_of(store: Store, run_id: str) -> RunRecord:
    record = await store.read(run_id)
    assert record is not None
    return record


async def test_a_released_run_goes_to_the_front(store: Store) -> None:
    runs = [new_run() for _ in range(3)]
    for run in runs:
        await store.submit(run)
    first, second = await store.claim(request(limit=2))
    assert await store.release(Release(token=second.token, status=RunStatus.queued, ready=True))
    assert await store.release(Release(token=first.token, status=RunStatus.queued, ready=True))
    again = await store.claim(request(limit=3))
    assert [claim.token.run_id for claim in again] == [run.run_id for run in runs]


async def test_release_and_charge_are_one_write_that_consumes_the_fence(store: Store) -> None:
    claim, charged = await claimed(store), Dossier(record=b"charged")
    release = Release(token=claim.token, status=RunStatus.queued, ready=True, dossier=charged)
    assert await store.release(release)
    assert not await store.release(release)
    record = await record_of(store, claim.token.run_id)
    assert (record.status, record.dossier, record.rev, record.owner) == (RunStatus.queued, charged, 3, None)
    (again,) = await store.claim(request())
    assert again.dossier == charged
    await store.release(Release(token=again.token, status=RunStatus.queued, ready=True))
    assert (await record_of(store, claim.token.run_id)).dossier == charged


async def test_a_quarantined_run_keeps_its_evidence_and_is_not_claimable(store: Store, clock: ManualClock) -> None:
    claim = await claimed(store)
    release = Release(
        token=claim.token, status=RunStatus.quarantined, ready=False, error=b'{"type": "EventLoopBlocked"}'
    )
    assert await store.release(release)
    record = await record_of(store, claim.token.run_id)
    assert (record.status, record.error) == (RunStatus.quarantined, b'{"type": "EventLoopBlocked"}')
    assert record.finished_ms == clock.wall_ms()
    assert await store.claim(request()) == ()


async def test_an_amendment_needs_the_revision_it_was_decided_on(store: Store) -> None:
    run = new_run()
    await store.submit(run)
    cancel = Amendment(run_id=run.run_id, rev=1, status=RunStatus.cancelled, ready=False, cancel_requested=True)
    assert await store.amend(cancel)
    assert not await store.amend(cancel)
    assert not await store.amend(Amendment(run_id="none", rev=1, ready=False))
    record = await record_of(store, run.run_id)
    assert (record.status, record.rev, record.cancel_requested) == (RunStatus.cancelled, 2, True)
    assert await store.claim(request()) == ()


async def test_a_claim_between_decision_and_amendment_wins(store: Store) -> None:
    run = new_run()
    await store.submit(run)
    await store.claim(request())
    assert not await store.amend(Amendment(run_id=run.run_id, rev=1, status=RunStatus.cancelled, ready=False))


async def test_cancelling_a_held_run_leaves_the_token_alive(store: Store) -> None:
    claim = await claimed(store)
    assert await store.amend(Amendment(run_id=claim.token.run_id, rev=2, cancel_requested=True))
    renewed = await store.renew([claim.token], TTL_MS)
    assert not renewed.lost
    assert renewed.cancelled == frozenset([claim.token.run_id])
    assert (await record_of(store, claim.token.run_id)).rev == 3


async def test_a_new_status_for_a_held_run_consumes_the_fence(store: Store) -> None:
    claim = await claimed(store)
    assert await store.amend(Amendment(run_id=claim.token.run_id, rev=2, status=RunStatus.paused))
    assert (await store.commit(appending(claim.token, 0, b"late"))).append is Append.fenced
    assert (await store.renew([claim.token], TTL_MS)).lost == {claim.token.run_id}
    assert await store.holdings("w-1") == ()


async def test_a_held_run_cannot_be_made_claimable_under_its_holder(store: Store) -> None:
    claim = await claimed(store)
    with pytest.raises(UsageError, match="held by a worker"):
        await store.amend(Amendment(run_id=claim.token.run_id, rev=2, ready=True))
    assert await store.amend(Amendment(run_id=claim.token.run_id, rev=2, ready=True, status=RunStatus.queued))
    (again,) = await store.claim(request())
    assert again.token.fence == 2


async def test_requeue_clears_the_outcome_and_keeps_the_journal(store: Store) -> None:
    claim = await claimed(store)
    await store.commit(appending(claim.token, 0, b"step", ending=FAILED))
    requeue = Amendment(
        run_id=claim.token.run_id, rev=3, status=RunStatus.queued, ready=True, dossier=CLEAN, clear_outcome=True
    )
    assert await store.amend(requeue)
    record = await record_of(store, claim.token.run_id)
    assert (record.status, record.error, record.finished_ms) == (RunStatus.queued, None, None)
    (again,) = await store.claim(request())
    assert again.journal == (b"step",)
    assert (await store.commit(appending(again.token, 1, ending=COMPLETED))).append is Append.done


async def test_entries_of_an_amendment_go_to_the_expected_position_or_nothing_happens(store: Store) -> None:
    claim = await claimed(store)
    await store.commit(appending(claim.token, 0, b"a"))
    wrong = Amendment(run_id=claim.token.run_id, rev=2, cancel_requested=True, expected_len=0, append=(b"x",))
    right = Amendment(run_id=claim.token.run_id, rev=2, cancel_requested=True, expected_len=1, append=(b"x", b"y"))
    assert not await store.amend(wrong)
    assert not (await record_of(store, claim.token.run_id)).cancel_requested
    assert await store.amend(right)
    assert await journal_of(store, claim.token.run_id) == [b"a", b"x", b"y"]
    record = await record_of(store, claim.token.run_id)
    assert (record.journal_len, record.journal_bytes) == (3, 3)
    assert (await store.commit(appending(claim.token, 1, b"z"))).append is Append.fenced
    assert (await store.commit(appending(claim.token, 3, b"z"))).append is Append.done
