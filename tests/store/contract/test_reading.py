"""Read, find, counts: what people and programs see of the runs."""

from __future__ import annotations

from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.stores.protocol import RunQuery, Store
from tests.store.samples import COMPLETED, FAILED, appending, claimed, new_run, request


async def test_a_run_that_is_not_there_reads_as_nothing(store: Store) -> None:
    assert await store.read("none") is None
    assert await store.read_journal("none", 0) == ()
    assert await store.find(RunQuery()) == ()
    assert await store.counts() == {}


async def test_a_page_of_a_journal_starts_where_it_was_asked_to(store: Store) -> None:
    claim = await claimed(store)
    await store.commit(appending(claim.token, 0, b"aa", b"bb", b"cc"))
    read = store.read_journal
    assert await read(claim.token.run_id, 1) == (b"bb", b"cc")
    assert await read(claim.token.run_id, 0, max_bytes=4) == (b"aa", b"bb")
    assert await read(claim.token.run_id, 0, max_bytes=1) == (b"aa",)
    assert await read(claim.token.run_id, 3) == ()


async def test_listing_is_newest_first_and_goes_on_page_by_page(store: Store) -> None:
    runs = [new_run("ab"[number % 2]) for number in range(7)]
    for run in runs:
        await store.submit(run)
    listed: list[str] = []
    before = None
    while page := await store.find(RunQuery(limit=3, before=before)):
        listed += [record.run_id for record in page]
        before = page[-1].run_id
    assert listed == [run.run_id for run in reversed(runs)]


async def test_listing_by_workflow_and_status(store: Store) -> None:
    done = await claimed(store, workflow="a")
    await store.commit(appending(done.token, 0, ending=COMPLETED))
    failed = await claimed(store, workflow="b")
    await store.commit(appending(failed.token, 0, ending=FAILED))
    waiting = new_run("a")
    await store.submit(waiting)

    async def ids(query: RunQuery) -> list[str]:
        return [record.run_id for record in await store.find(query)]

    ended = frozenset({RunStatus.completed, RunStatus.failed})
    assert await ids(RunQuery(workflow="a")) == [waiting.run_id, done.token.run_id]
    assert await ids(RunQuery(statuses=ended)) == [failed.token.run_id, done.token.run_id]
    assert await ids(RunQuery(statuses=ended, limit=1)) == [failed.token.run_id]
    assert await ids(RunQuery(statuses=ended, before=failed.token.run_id)) == [done.token.run_id]
    assert await ids(RunQuery(workflow="a", statuses=ended)) == [done.token.run_id]
    assert await ids(RunQuery(workflow="none")) == []
    assert await ids(RunQuery(statuses=frozenset())) == []


async def test_counts_by_workflow_and_status(store: Store) -> None:
    for workflow in ("a", "a", "a", "b"):
        await store.submit(new_run(workflow))
    await store.claim(request(("a", None), limit=2))
    assert await store.counts() == {
        ("a", RunStatus.queued): 1,
        ("a", RunStatus.running): 2,
        ("b", RunStatus.queued): 1,
    }
    assert await store.counts(frozenset({RunStatus.running, RunStatus.failed})) == {("a", RunStatus.running): 2}
    assert await store.counts(frozenset()) == {}
