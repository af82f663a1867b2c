"""Open, close, ping, threads: a handle's own life."""

from __future__ import annotations

import asyncio
import threading

import pytest

from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.stores.protocol import Append, Store, Submitted
from tests.store.samples import appending, claimed, journal_of, new_run
from tests.store.sites import Site


async def test_opening_twice_and_closing_twice_is_once(site: Site) -> None:
    store = site.handle()
    await store.open()
    await store.open()
    await store.ping()
    await store.close()
    await store.close()


async def test_a_handle_that_is_not_open_says_so(site: Site) -> None:
    store = site.handle()
    with pytest.raises(UsageError, match="open"):
        await store.submit(new_run())
    await store.open()
    await store.close()
    with pytest.raises(UsageError, match="open"):
        await store.read("none")
    with pytest.raises(UsageError, match="open"):
        await store.ping()
    with pytest.raises(UsageError, match="open"):
        store.listen(print)


async def test_a_handle_can_be_opened_again(site: Site) -> None:
    store = site.handle()
    await store.open()
    run = new_run()
    await store.submit(run)
    await store.close()
    await store.open()
    assert await store.read(run.run_id) is not None
    await store.close()


async def test_close_finishes_what_is_queued(site: Site) -> None:
    store = site.handle()
    await store.open()
    claim = await claimed(store)
    commits = [store.commit(appending(claim.token, at, b"x")) for at in range(200)]
    await store.close()
    assert all(commit.done() and commit.result().append is Append.done for commit in commits)
    assert len(await journal_of(await site.open(), claim.token.run_id)) == 200


async def test_handles_of_one_store_are_identical_in_identity(site: Site, store: Store) -> None:
    assert store.identity == (await site.open()).identity
    assert store.url


async def test_a_verb_answers_on_the_loop_that_called_it(store: Store) -> None:
    answers: list[Submitted] = []

    def elsewhere() -> None:
        async def submit() -> None:
            answers.append(await store.submit(new_run()))

        asyncio.run(submit())

    threads = [threading.Thread(target=elsewhere) for _ in range(4)]
    for thread in threads:
        thread.start()
    mine = await store.submit(new_run())
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert len({mine.run_id, *(answer.run_id for answer in answers)}) == 5
