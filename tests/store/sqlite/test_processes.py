"""Several processes on one file: nobody is served twice, nobody sees BUSY, and a killed one leaves the file sound."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import Append, Submission
from pyrula_runtime.stores.sqlite import answers, write_lock
from pyrula_runtime.stores.sqlite.checks import check
from pyrula_runtime.stores.sqlite.connection import beside
from pyrula_runtime.stores.sqlite.store import SqliteStore
from tests.store.samples import appending, journal_of, new_run, request, until
from tests.store.sites import SMALL
from tests.store.sqlite.conftest import Actor

Opened = Callable[..., Awaitable[SqliteStore]]
Started = Callable[..., Awaitable[Actor]]
LIMIT_S = 60.0


async def test_four_processes_claim_a_thousand_runs_once_each(store: SqliteStore, actor: Started, path: Path) -> None:
    # reading first and writing then, from four processes, neither shows BUSY nor claims twice
    runs = [new_run() for _ in range(1000)]
    await asyncio.gather(*(store.submit(run) for run in runs))
    actors = [await actor("claim_all") for _ in range(4)]
    for one in actors:
        one.tell()
    taken = [json.loads(await one.line()) for one in actors]
    assert [await one.ended() for one in actors] == [0] * 4
    together = [run for part in taken for run in part]
    assert sorted(together) == sorted(run.run_id for run in runs)
    assert check(path) == []


async def test_checkpoints_of_one_process_never_meet_commits_of_another(
    store: SqliteStore, actor: Started, path: Path
) -> None:
    # the race that corrupts SQLite files before 3.51.3
    actors = [await actor("commit_many", "150", "900") for _ in range(3)]
    for one in actors:
        one.tell()
    assert [await one.line() for one in actors] == ["done"] * 3
    assert [await one.ended() for one in actors] == [0] * 3
    assert check(path) == []
    assert sum((await store.counts()).values()) == 12


@pytest.mark.nightly
async def test_a_million_commits_among_checkpoints_leave_the_file_sound(
    store: SqliteStore, actor: Started, path: Path
) -> None:
    actors = [await actor("commit_many", "63_000", "50") for _ in range(4)]
    for one in actors:
        one.tell()
    assert [await one.ended() for one in actors] == [0] * 4
    assert check(path) == []


async def test_killed_between_begin_and_commit_leaves_nothing_behind(
    store: SqliteStore, actor: Started, path: Path
) -> None:
    killed = await actor("die_in_transaction", "half")
    assert await killed.ended() == -signal.SIGKILL
    await store.ping()  # its lock went with it
    assert await store.read("half") is None
    assert check(path) == []


async def test_a_killed_holder_loses_nothing_it_had_committed(opened: Opened, actor: Started, path: Path) -> None:
    killed = await actor("die_holding")
    run_id = await killed.line()
    assert await killed.ended() == -signal.SIGKILL
    store = await opened()
    assert await journal_of(store, run_id) == [b"step"]
    (held,) = await store.holdings(f"w-{killed.pid}")
    assert (await store.commit(appending(held.token, 1, b"next"))).append is Append.done


async def test_a_foreign_holder_of_the_lock_is_named(opened: Opened, actor: Started) -> None:
    store = await opened(replace(SMALL, ping_s=0.1))
    holder = await actor("hold_lock")
    assert await holder.line() == "held"
    with pytest.raises(StoreUnavailable, match=rf"process {holder.pid} \(.*tests\.store\.sqlite\.actor hold_lock"):
        await store.ping()
    waiting = store.submit(new_run())
    with pytest.raises(StoreUnavailable, match=f"process {holder.pid}"):
        await store.ping()
    holder.tell()
    assert await holder.line() == "released"
    assert (await waiting).submission == "created"
    await store.ping()


async def test_two_stores_in_two_processes_are_no_deadlock(
    opened: Opened, actor: Started, store: SqliteStore, tmp_path: Path
) -> None:
    # the kernel's view: this process holds B and waits for A, the other holds A and waits for B
    other = tmp_path / "other.db"
    mine = write_lock.obtain(beside(other, ".lock"))
    with mine.held():
        process = await actor("hold_lock_and_want", str(other))
        assert await process.line() == "held"
        waiting = store.submit(new_run())
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(waiting), 0.1)
        process.tell()
        assert (await waiting).submission == "created"
    assert await process.line() == "got the other"
    assert await process.ended() == 0
    write_lock.give_up(mine)


async def test_reads_and_idle_claims_need_no_lock(store: SqliteStore, actor: Started) -> None:
    holder = await actor("hold_lock")
    assert await holder.line() == "held"
    assert await asyncio.wait_for(store.claim(request()), 10) == ()
    assert await asyncio.wait_for(store.read("none"), 10) is None


async def test_closing_does_not_wait_for_a_foreign_holder(opened: Opened, actor: Started, path: Path) -> None:
    store = await opened(replace(SMALL, ping_s=0.1))
    holder = await actor("hold_lock")
    assert await holder.line() == "held"
    calls = [store.submit(new_run()) for _ in range(100)]
    await asyncio.wait_for(store.close(), 20)
    for answer in await asyncio.gather(*calls, return_exceptions=True):
        assert isinstance(answer, StoreUnavailable)
    holder.tell()
    assert await holder.line() == "released"
    again = await opened()
    assert await again.counts() == {}


async def test_opening_does_not_wait_for_ever_either(opened: Opened, actor: Started, store: SqliteStore) -> None:
    holder = await actor("hold_lock")
    assert await holder.line() == "held"
    with pytest.raises(StoreUnavailable, match=f"process {holder.pid}"):
        await opened(replace(SMALL, open_patience_s=0.1))


async def test_a_store_opened_before_a_fork_refuses_the_child_and_serves_the_parent(actor: Started) -> None:
    forked = await actor("fork")
    assert "opened before this process was forked" in await forked.line()
    assert await forked.line() == "queued"
    assert await forked.ended() == 0


async def test_a_socket_wakes_another_process(store: SqliteStore, actor: Started) -> None:
    listener = await actor("listen")
    assert await listener.line() == "listening"
    await store.submit(new_run())
    assert await listener.line() == "ready"
    assert await listener.ended() == 0


async def test_an_idle_store_gives_signs_of_life(opened: Opened) -> None:
    # without them a quiet night would pass for an outage
    clock = ManualClock()
    store = await opened(SMALL, clock)
    await store.claim(request(ttl_ms=30))  # the shortest lock in use asks for a sign every 10 ms

    async def beats() -> int:
        ((beat,),) = await store._read(lambda db: db.execute("SELECT beat FROM host").fetchall())
        assert isinstance(beat, int)
        return beat

    async def one_more() -> bool:
        return await beats() > first

    first = await beats()
    clock.move(60)
    await until(one_more)


async def test_since_when_the_write_lock_is_held_is_told_while_it_is_and_no_longer(store: SqliteStore) -> None:
    told: list[int] = []
    before_ms = int(time.monotonic() * 1000)
    store.tell_tenure(told.append)
    await store.submit(new_run())
    assert len(told) >= 2
    since, let_go = told[-2:]
    assert before_ms <= since <= time.monotonic() * 1000
    assert let_go == 0


async def test_the_write_lock_is_not_taken_before_the_caller_has_gone_on(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a loop begins just after a call may keep the GIL: with the lock taken, that would freeze the host."""
    monkeypatch.setattr(answers, "_GIVE_WAY_S", LIMIT_S)
    taken = threading.Event()
    store.tell_tenure(lambda since_ms: taken.set() if since_ms else None)
    submitting = asyncio.ensure_future(store.submit(new_run()))
    for _ in range(5):  # as many as lead from an answer to the first line of a step
        await asyncio.sleep(0)
        # blocks the loop as a step might; meanwhile the writer has the GIL and all the time it could wish for
        assert not taken.wait(0.01)
    assert (await submitting).submission is Submission.created
    assert taken.is_set()


async def test_a_loop_that_does_not_go_round_is_not_waited_for(store: SqliteStore) -> None:
    told = threading.Event()
    store.tell_tenure(lambda since_ms: told.set() if since_ms else None)
    submitting = asyncio.ensure_future(store.submit(new_run()))
    await asyncio.sleep(0)
    assert told.wait(LIMIT_S)  # blocks the loop
    assert (await submitting).submission is Submission.created
