"""Submit: a run exists once per id and once per living idempotency key."""

from __future__ import annotations

import asyncio

from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import Store, Submission
from tests.store.samples import DAY_MS, new_run, request
from tests.store.sites import Site


async def test_a_new_run_is_claimable_and_reads_as_submitted(store: Store, clock: ManualClock) -> None:
    run = new_run("order", "7", input_=b'{"n": 1}')
    answer = await store.submit(run)
    assert (answer.run_id, answer.submission) == (run.run_id, Submission.created)
    record = await store.read(run.run_id)
    assert record is not None
    assert (record.workflow, record.version, record.status, record.input) == ("order", "7", "queued", b'{"n": 1}')
    assert (record.rev, record.fence, record.journal_len, record.inbox_len) == (1, 0, 0, 0)
    assert (record.result, record.error, record.started_ms, record.finished_ms) == (None, None, None, None)
    assert (record.owner, record.lock_left_ms, record.created_ms) == (None, None, clock.wall_ms())
    assert record.status is RunStatus.queued


async def test_the_same_id_again_answers_with_the_first_run_and_writes_nothing(store: Store) -> None:
    run = new_run()
    await store.submit(run)
    again = await store.submit(run)
    other = await store.submit(new_run(run=run.run_id, digest="other"))
    assert (again.run_id, again.submission) == (run.run_id, Submission.existing)
    assert (other.run_id, other.submission) == (run.run_id, Submission.conflict)
    assert len(await store.claim(request(limit=9))) == 1


async def test_a_key_answers_with_its_first_run_for_its_whole_life(store: Store, clock: ManualClock) -> None:
    first = await store.submit(new_run(key="k"))
    clock.move(DAY_MS - 1)
    same = await store.submit(new_run(key="k"))
    other = await store.submit(new_run(key="k", digest="other"))
    assert (same.run_id, same.submission) == (first.run_id, Submission.existing)
    assert (other.run_id, other.submission) == (first.run_id, Submission.conflict)
    assert await store.counts() == {("order", RunStatus.queued): 1}


async def test_an_expired_key_is_free_even_if_nobody_purged_it(store: Store, clock: ManualClock) -> None:
    # a dedupe record that outlives its time must not block new runs for ever
    first = await store.submit(new_run(key="k"))
    clock.move(DAY_MS)
    second = await store.submit(new_run(key="k"))
    third = await store.submit(new_run(key="k"))
    assert second.submission is Submission.created
    assert (third.run_id, third.submission) == (second.run_id, Submission.existing)
    assert first.run_id != second.run_id


async def test_a_conflict_leaves_no_trace(store: Store) -> None:
    run = new_run()
    await store.submit(run)
    await store.submit(new_run(run=run.run_id, digest="other", key="k"))
    assert (await store.submit(new_run(key="k", digest="third"))).submission is Submission.created


async def test_one_key_from_many_handles_at_once_makes_one_run(site: Site) -> None:
    handles = [await site.open() for _ in range(4)]
    answers = await asyncio.gather(*(handle.submit(new_run(key="k")) for handle in handles for _ in range(5)))
    assert len({answer.run_id for answer in answers}) == 1
    assert sum(answer.submission is Submission.created for answer in answers) == 1


async def test_purge_drops_only_keys_whose_time_is_over(store: Store, clock: ManualClock) -> None:
    for number in range(5):
        await store.submit(new_run(key=f"old-{number}"))
    clock.move(DAY_MS // 2)
    young = await store.submit(new_run(key="young"))
    assert await store.purge(10) == 0
    clock.move(DAY_MS // 2)
    assert await store.purge(3) == 3
    assert await store.purge(3) == 2
    assert await store.purge(3) == 0
    assert (await store.submit(new_run(key="young"))).run_id == young.run_id
