"""Suspects and dossiers: a line of their own, and what is held against a run changes with the write that says so."""

from __future__ import annotations

import pytest

from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import CLEAN, Amendment, Append, Claim, Dossier, Release, RunRecord, Store, Wake
from tests.store.samples import (
    COMPLETED,
    DAY_MS,
    SUSPECT,
    TTL_MS,
    appending,
    claimed,
    journal_of,
    new_run,
    request,
    until,
)
from tests.store.sites import Site

QUEUED = RunStatus.queued
CHARGED = Dossier(record=b"charged")


async def suspected(store: Store) -> Claim:
    """Submit a run, take it, and give it back as a suspect; the claim it had."""
    claim = await claimed(store)
    assert await store.release(Release(token=claim.token, status=QUEUED, ready=True, dossier=SUSPECT))
    return claim


async def record_of(store: Store, run_id: str) -> RunRecord:
    record = await store.read(run_id)
    assert record is not None
    return record


async def test_a_suspect_is_for_those_who_ask_for_suspects_and_they_get_nothing_else(store: Store) -> None:
    suspect = await suspected(store)
    ordinary = new_run()
    await store.submit(ordinary)
    taken = await store.claim(request(limit=5))
    assert [claim.token.run_id for claim in taken] == [ordinary.run_id]
    (in_cell,) = await store.claim(request(limit=5, suspects=True, incarnation="cell"))
    assert (in_cell.token.run_id, in_cell.token.fence, in_cell.dossier) == (suspect.token.run_id, 2, SUSPECT)
    assert await store.claim(request(limit=5, suspects=True)) == ()


async def test_a_cell_serves_by_workflow_and_version_as_everybody(store: Store) -> None:
    for version in ("old", None):
        await store.submit(new_run(version=version))
    for claim in await store.claim(request(("order", "old"))):
        await store.release(Release(token=claim.token, status=QUEUED, ready=True, dossier=SUSPECT))
    assert await store.claim(request(("other", "old"), suspects=True)) == ()
    (unpinned,) = await store.claim(request(("order", None), suspects=True))
    (pinned,) = await store.claim(request(("order", "old"), suspects=True))
    assert (unpinned.version, pinned.version) == (None, "old")


async def test_a_released_suspect_goes_to_the_front_of_the_suspects(store: Store) -> None:
    claims = [await claimed(store) for _ in range(3)]
    for claim in reversed(claims):
        await store.release(Release(token=claim.token, status=QUEUED, ready=True, dossier=SUSPECT))
    (first,) = await store.claim(request(limit=1, suspects=True))
    await store.release(Release(token=first.token, status=QUEUED, ready=True))
    again = await store.claim(request(limit=3, suspects=True))
    assert [claim.token.run_id for claim in again] == [claim.token.run_id for claim in claims]


async def test_suspects_are_counted_while_they_wait_for_a_cell(store: Store) -> None:
    assert await store.suspects() == 0
    await claimed(store)
    await store.submit(new_run())
    assert await store.suspects() == 0
    await suspected(store)
    await suspected(store)
    assert await store.suspects() == 2
    (claim,) = await store.claim(request(limit=1, suspects=True))
    assert await store.suspects() == 1
    await store.release(Release(token=claim.token, status=RunStatus.quarantined, ready=False))
    assert await store.suspects() == 1


async def test_a_release_without_a_dossier_leaves_a_suspect_one(store: Store) -> None:
    await suspected(store)
    (claim,) = await store.claim(request(suspects=True))
    await store.release(Release(token=claim.token, status=QUEUED, ready=True))
    assert await store.claim(request()) == ()
    (again,) = await store.claim(request(suspects=True))
    assert again.dossier == SUSPECT


@pytest.mark.parametrize("after", [CHARGED, CLEAN])
async def test_who_is_no_suspect_any_more_is_for_everybody(store: Store, after: Dossier) -> None:
    await suspected(store)
    (claim,) = await store.claim(request(suspects=True))
    await store.release(Release(token=claim.token, status=QUEUED, ready=True, dossier=after))
    assert await store.claim(request(suspects=True)) == ()
    (again,) = await store.claim(request())
    assert again.dossier == after


async def test_a_suspect_whose_lock_lapsed_stays_one(store: Store, clock: ManualClock) -> None:
    await suspected(store)
    (claim,) = await store.claim(request(suspects=True))
    for _ in range(4):
        clock.move(TTL_MS // 3)
        await store.renew([], TTL_MS)
    assert (await store.reclaim_lapsed(QUEUED, TTL_MS, 10)).run_ids == (claim.token.run_id,)
    assert await store.claim(request()) == ()
    assert await store.suspects() == 1


async def test_a_dossier_is_written_with_the_commit_that_brings_it(store: Store) -> None:
    await suspected(store)
    (claim,) = await store.claim(request(suspects=True))
    clearing = appending(claim.token, 0, b"step", dossier=CHARGED)
    assert (await store.commit(clearing)).append is Append.done
    assert (await store.holdings("w-1"))[0].dossier == CHARGED
    await store.release(Release(token=claim.token, status=QUEUED, ready=True))
    (again,) = await store.claim(request())
    assert (again.dossier, again.journal) == (CHARGED, (b"step",))


async def test_a_dossier_may_come_with_the_ending(store: Store) -> None:
    claim = await claimed(store)
    await store.commit(appending(claim.token, 0, b"last", ending=COMPLETED, dossier=CHARGED))
    record = await record_of(store, claim.token.run_id)
    assert (record.status, record.dossier) == (RunStatus.completed, CHARGED)


async def test_a_commit_that_is_not_done_changes_no_dossier(store: Store) -> None:
    claim = await claimed(store)
    commit = appending(claim.token, 0, b"a", dossier=CHARGED)
    await store.commit(commit)
    await store.commit(appending(claim.token, 1, b"b", dossier=CLEAN))
    late = await store.commit(commit)
    gap = await store.commit(appending(claim.token, 9, b"z", dossier=SUSPECT))
    other = await store.commit(appending(claim.token, 0, b"x", dossier=SUSPECT))
    assert [answer.append for answer in (late, gap, other)] == [Append.duplicate, Append.gap, Append.fenced]
    assert (await record_of(store, claim.token.run_id)).dossier == CLEAN
    assert await journal_of(store, claim.token.run_id) == [b"a", b"b"]


async def test_an_ending_repeated_after_a_lost_answer_changes_no_dossier(store: Store) -> None:
    claim = await claimed(store)
    ending = appending(claim.token, 0, ending=COMPLETED, dossier=CHARGED)
    await store.commit(ending)
    rev = (await record_of(store, claim.token.run_id)).rev
    assert await store.amend(Amendment(run_id=claim.token.run_id, rev=rev, dossier=CLEAN))
    assert (await store.commit(ending)).append is Append.duplicate
    assert (await record_of(store, claim.token.run_id)).dossier == CLEAN


async def test_an_operator_forgives_a_waiting_suspect(store: Store) -> None:
    claim = await suspected(store)
    assert await store.amend(Amendment(run_id=claim.token.run_id, rev=3, dossier=CLEAN))
    assert await store.suspects() == 0
    (again,) = await store.claim(request())
    assert again.dossier == CLEAN


async def test_an_amendment_of_something_else_leaves_a_suspect_in_its_line(store: Store) -> None:
    claim = await suspected(store)
    assert await store.amend(Amendment(run_id=claim.token.run_id, rev=3, cancel_requested=True))
    assert await store.claim(request()) == ()
    assert await store.amend(Amendment(run_id=claim.token.run_id, rev=4, status=RunStatus.paused, ready=False))
    assert await store.suspects() == 0
    assert await store.amend(Amendment(run_id=claim.token.run_id, rev=5, status=QUEUED, ready=True))
    (again,) = await store.claim(request(suspects=True))
    assert (again.dossier, again.cancel_requested) == (SUSPECT, True)


async def test_a_suspect_that_becomes_claimable_wakes_who_waits(site: Site) -> None:
    store, cell = await site.open(), await site.open()
    woken: list[Wake] = []
    listening = cell.listen(woken.append, frozenset({Wake.ready}))
    claim = await claimed(store)

    async def rung() -> bool:
        return bool(woken)

    await until(rung)  # by the submit
    woken.clear()
    await store.release(Release(token=claim.token, status=QUEUED, ready=True, dossier=SUSPECT))
    await until(rung)
    listening.close()


async def test_a_dossier_survives_what_time_does(store: Store, clock: ManualClock) -> None:
    # how old a charge may be is the core's rule, never a store's
    claim = await suspected(store)
    clock.move(DAY_MS)
    await store.purge(10)
    assert (await record_of(store, claim.token.run_id)).dossier == SUSPECT
