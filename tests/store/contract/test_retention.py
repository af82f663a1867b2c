"""Runs that ended long ago go, with all that belongs to them; nothing else does."""

from __future__ import annotations

from collections.abc import Sequence

from pyrula_runtime.core.status import TERMINAL, RunStatus
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import Amendment, Dossier, Ending, Release, RunQuery, Store, Submission
from tests.store.samples import COMPLETED, FAILED, appending, claimed, journal_of, new_run, request

AGE_MS = 60_000
MOST = 100


async def ended(store: Store, count: int = 1, ending: Ending = COMPLETED) -> list[str]:
    """So many runs that have just ended."""
    for _ in range(count):
        await store.submit(new_run())
    claims = await store.claim(request(limit=count))
    for claim in claims:
        await store.commit(appending(claim.token, 0, b"a", ending=ending))
    return [claim.token.run_id for claim in claims]


async def kept(store: Store, runs: Sequence[str]) -> list[str]:
    return [run for run in runs if await store.read(run) is not None]


async def test_an_old_run_goes_with_all_that_belongs_to_it(store: Store, clock: ManualClock) -> None:
    (run,) = await ended(store)
    clock.move(AGE_MS - 1)
    assert await store.drop_finished(TERMINAL, AGE_MS, MOST) == 0
    clock.move(1)
    assert await store.drop_finished(TERMINAL, AGE_MS, MOST) == 1
    assert await store.read(run) is None
    assert await journal_of(store, run) == []
    assert await store.find(RunQuery()) == ()
    assert dict(await store.counts()) == {}
    assert await store.drop_finished(TERMINAL, AGE_MS, MOST) == 0


async def test_what_has_not_ended_stays(store: Store, clock: ManualClock) -> None:
    queued, held, paused = (new_run() for _ in range(3))
    await store.submit(held)
    (claim,) = await store.claim(request())
    await store.submit(paused)
    (other,) = await store.claim(request())
    await store.release(Release(token=other.token, status=RunStatus.paused, ready=False))
    await store.submit(queued)
    clock.move(10 * AGE_MS)
    assert await store.drop_finished(frozenset(RunStatus), AGE_MS, MOST) == 0
    assert claim.token.run_id == held.run_id
    assert len(await kept(store, [queued.run_id, held.run_id, paused.run_id])) == 3


async def test_only_what_ended_as_was_asked_goes(store: Store, clock: ManualClock) -> None:
    completed = await ended(store)
    failed = await ended(store, ending=FAILED)
    claim = await claimed(store)
    await store.release(
        Release(token=claim.token, status=RunStatus.quarantined, ready=False, dossier=Dossier(record=b"x"))
    )
    clock.move(AGE_MS)
    assert await store.drop_finished(TERMINAL - {RunStatus.quarantined, RunStatus.failed}, AGE_MS, MOST) == 1
    assert await kept(store, [*completed, *failed, claim.token.run_id]) == [*failed, claim.token.run_id]
    assert await store.drop_finished(frozenset({RunStatus.quarantined}), AGE_MS, MOST) == 1
    assert await kept(store, [*failed, claim.token.run_id]) == failed


async def test_the_longest_ended_go_first_and_no_more_than_the_limit(store: Store, clock: ManualClock) -> None:
    runs = []
    for _ in range(5):
        runs += await ended(store)
        clock.move(1)
    clock.move(AGE_MS)
    assert await store.drop_finished(TERMINAL, AGE_MS, 2) == 2
    assert len(await kept(store, runs)) == 3
    assert await store.drop_finished(TERMINAL, AGE_MS, 2) == 2
    assert await store.drop_finished(TERMINAL, AGE_MS, 2) == 1


async def test_a_run_that_was_sent_on_is_as_young_as_its_next_end(store: Store, clock: ManualClock) -> None:
    (run,) = await ended(store, ending=FAILED)
    clock.move(AGE_MS)
    record = await store.read(run)
    assert record is not None
    again = Amendment(run_id=run, rev=record.rev, status=RunStatus.queued, ready=True, clear_outcome=True)
    assert await store.amend(again)
    assert await store.drop_finished(TERMINAL, AGE_MS, MOST) == 0
    (claim,) = await store.claim(request())
    await store.commit(appending(claim.token, 1, b"b", ending=COMPLETED))
    clock.move(AGE_MS - 1)
    assert await store.drop_finished(TERMINAL, AGE_MS, MOST) == 0
    clock.move(1)
    assert await store.drop_finished(TERMINAL, AGE_MS, MOST) == 1


async def test_a_key_outlives_its_run_and_a_chosen_id_does_not(store: Store, clock: ManualClock) -> None:
    run = new_run(key="k")
    await store.submit(run)
    (claim,) = await store.claim(request())
    await store.commit(appending(claim.token, 0, ending=COMPLETED))
    clock.move(AGE_MS)
    assert await store.drop_finished(TERMINAL, AGE_MS, MOST) == 1
    answer = await store.submit(new_run(key="k"))
    assert (answer.submission, answer.run_id) == (Submission.existing, run.run_id)
    assert (await store.submit(new_run(run=run.run_id))).submission is Submission.created
    (claim,) = await store.claim(request())
    assert (claim.token.fence, claim.journal) == (1, ())
