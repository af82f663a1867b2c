"""Claim: oldest first, only what is served, each run to one holder, with all a turn needs."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import CLEAN, Release, Store
from tests.store.samples import TTL_MS, appending, new_run, request
from tests.store.sites import Site


async def test_a_claim_takes_the_oldest_and_carries_what_a_turn_needs(store: Store, clock: ManualClock) -> None:
    runs = [new_run(input_=b"%d" % number) for number in range(3)]
    for run in runs:
        await store.submit(run)
    created_ms = clock.wall_ms()
    clock.move(5_000)
    first, second = await store.claim(request(limit=2))
    assert [first.token.run_id, second.token.run_id] == [run.run_id for run in runs[:2]]
    assert (first.input, first.journal, first.journal_len, first.journal_bytes) == (b"0", (), 0, 0)
    assert (first.created_ms, first.started_ms) == (created_ms, clock.wall_ms())
    assert (first.cancel_requested, first.dossier, first.token.fence) == (False, CLEAN, 1)
    record = await store.read(runs[0].run_id)
    assert record is not None
    assert (record.status, record.owner, record.lock_left_ms, record.rev) == (RunStatus.running, "w-1", TTL_MS, 2)


async def test_nothing_claimable_is_no_claim(store: Store) -> None:
    assert await store.claim(request()) == ()
    await store.submit(new_run("unserved"))
    assert await store.claim(request()) == ()


async def test_a_run_belongs_to_the_holder_of_its_one_living_token(store: Store, clock: ManualClock) -> None:
    await store.submit(new_run())
    (first,) = await store.claim(request())
    assert await store.claim(request(incarnation="w-2")) == ()
    await store.release(Release(token=first.token, status=RunStatus.queued, ready=True))
    clock.move(1_000)
    (second,) = await store.claim(request(incarnation="w-2"))
    assert second.token.fence == first.token.fence + 1
    assert second.token.nonce != first.token.nonce
    assert second.started_ms == first.started_ms == first.now_ms
    assert second.now_ms == clock.wall_ms()


async def test_claims_from_several_workflows_keep_the_order_of_submission(store: Store) -> None:
    runs = [new_run("ab"[number % 2]) for number in range(6)]
    for run in runs:
        await store.submit(run)
    both = (("b", "1"), ("a", "1"))
    claims = [*await store.claim(request(*both, limit=4)), *await store.claim(request(*both, limit=4))]
    assert [claim.token.run_id for claim in claims] == [run.run_id for run in runs]


async def test_a_pinned_run_of_a_version_nobody_serves_holds_nobody_up(store: Store) -> None:
    pinned, mine, unpinned = new_run(version="old"), new_run(version="1"), new_run()
    for run in (pinned, mine, unpinned):
        await store.submit(run)
    claims = await store.claim(request(("order", "1")))
    assert [claim.token.run_id for claim in claims] == [mine.run_id, unpinned.run_id]
    (old,) = await store.claim(request(("order", "old")))
    assert (old.token.run_id, old.version) == (pinned.run_id, "old")


async def test_a_worker_without_a_version_takes_unpinned_runs_only(store: Store) -> None:
    pinned, unpinned = new_run(version="1"), new_run()
    await store.submit(pinned)
    await store.submit(unpinned)
    claims = await store.claim(request(("order", None)))
    assert [claim.token.run_id for claim in claims] == [unpinned.run_id]


async def test_serving_two_versions_takes_each_run_once(store: Store) -> None:
    for version in (None, "1", "2", None):
        await store.submit(new_run(version=version))
    claims = await store.claim(request(("order", "1"), ("order", "2")))
    assert len({claim.token.run_id for claim in claims}) == len(claims) == 4


async def test_no_run_is_claimed_twice_by_many_at_once(site: Site) -> None:
    handles = [await site.open() for _ in range(4)]
    for _ in range(40):
        await handles[0].submit(new_run())
    batches = await asyncio.gather(
        *(
            handle.claim(request(limit=3, incarnation=f"w-{number}"))
            for number, handle in enumerate(handles)
            for _ in range(5)
        )
    )
    taken = [claim.token.run_id for batch in batches for claim in batch]
    assert len(taken) == len(set(taken)) == 40


async def test_a_long_journal_comes_in_whole_entries_and_the_rest_by_pages(store: Store) -> None:
    await store.submit(new_run())
    (claim,) = await store.claim(request())
    entries = [bytes([65 + number]) * 400_000 for number in range(5)]
    for at, entry in enumerate(entries):
        await store.commit(appending(claim.token, at, entry))
    await store.release(Release(token=claim.token, status=RunStatus.queued, ready=True))
    (again,) = await store.claim(request())
    assert again.journal == tuple(entries[:2])
    assert (again.journal_len, again.journal_bytes) == (5, 2_000_000)
    assert await store.read_journal(claim.token.run_id, 2) == tuple(entries[2:4])
    assert await store.read_journal(claim.token.run_id, 4) == tuple(entries[4:])


async def test_an_entry_larger_than_a_page_still_comes(store: Store) -> None:
    await store.submit(new_run())
    (claim,) = await store.claim(request())
    await store.commit(appending(claim.token, 0, b"x" * 1_500_000, b"y"))
    await store.release(Release(token=claim.token, status=RunStatus.queued, ready=True))
    (again,) = await store.claim(request())
    assert again.journal == (b"x" * 1_500_000,)


async def test_fences_of_a_run_only_grow(store: Store) -> None:
    await store.submit(new_run())
    fences = []
    for _ in range(4):
        (claim,) = await store.claim(request())
        fences.append(claim.token.fence)
        await store.release(Release(token=claim.token, status=RunStatus.queued, ready=True))
    assert all(later > earlier for earlier, later in pairwise(fences))
