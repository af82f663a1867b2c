"""The clerk as a real process: it frees what the dead hold, whoever names them; its own death loses nothing."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.scheduling.firing import run_id_of
from pyrula_runtime.stores.clock import SystemClock
from pyrula_runtime.stores.opening import open_store
from pyrula_runtime.stores.protocol import Store, WorkerRecord
from pyrula_runtime.stores.sqlite import write_lock
from pyrula_runtime.wire import (
    Buried,
    Bury,
    CannotStart,
    Drain,
    Evacuated,
    Finding,
    Hello,
    Judged,
    Queue,
    Ready,
    Role,
    Stage,
    StandIn,
)
from pyrula_runtime.workflows.starting import Schedule
from tests.blackbox.holder import Holder
from tests.duties.dying import Dying
from tests.duties.starting.schedules import put, runs_of
from tests.store.samples import COMPLETED, appending, new_run, request, suspended, until
from tests.supervisor.lines import Line, Lines, start_of


@pytest.fixture
async def lines(tmp_path: Path) -> AsyncIterator[Lines]:
    made = Lines(tmp_path)
    yield made
    await made.close()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/s.db"


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    opened = open_store(url)
    await opened.open()
    yield opened
    await opened.close()


async def serving(lines: Lines, url: str, name: str = "clerk") -> Line:
    """A clerk that is ready."""
    clerk = lines.spawn(start_of(Role.clerk, name, url))
    await clerk.told(Ready)
    return clerk


async def held_by(store: Store, incarnation: str, count: int = 1) -> list[str]:
    """Runs that an incarnation has claimed."""
    for _ in range(count):
        await store.submit(new_run())
    claims = await store.claim(request(limit=count, incarnation=incarnation))
    return [claim.token.run_id for claim in claims]


async def status_of(store: Store, run: str) -> RunStatus:
    record = await store.read(run)
    assert record is not None
    return record.status


@contextmanager
def keeping_others_from_writing(tmp_path: Path) -> Iterator[None]:
    """Hold the store's write lock in this process, which must not write meanwhile."""
    lock = write_lock.obtain(tmp_path / "s.db.lock")
    try:
        with lock.held():
            yield
    finally:
        write_lock.give_up(lock)


async def test_what_the_dead_hold_is_free_at_once_and_looked_at_again(lines: Lines, store: Store, url: str) -> None:
    runs = await held_by(store, "dead", 70)
    alive = await held_by(store, "alive")
    clerk = await serving(lines, url)
    clerk.say(Bury(incarnation="dead"))
    first = await clerk.told(Buried, incarnation="dead")
    assert (sorted(first.run_ids), first.final) == (sorted(runs), False)
    assert {await status_of(store, run) for run in runs} == {RunStatus.queued}
    assert await status_of(store, alive[0]) is RunStatus.running
    # a claim that was still on its way to the store when its sender died
    late = await store.claim(request(limit=1, incarnation="dead"))
    last = await clerk.told(Buried, incarnation="dead")
    assert (last.run_ids, last.final) == ((late[0].token.run_id,), True)


async def test_who_is_buried_is_forgotten(lines: Lines, store: Store, url: str, tmp_path: Path) -> None:
    holder = Holder(tmp_path / "run" / "pyrula")
    try:
        box = holder.create("dead", store.identity)
        record = WorkerRecord(
            incarnation="dead",
            worker_id="w",
            pid=holder.pid,
            host="h",
            serves=(),
            capacity=1,
            running=1,
            draining=False,
        )
        await store.beat(record, 60_000)
        clerk = await serving(lines, url)
        holder.kill()
        clerk.say(Bury(incarnation="dead"))
        await clerk.told(Buried, final=False)
        assert box.exists()
        await clerk.told(Buried, final=True)
        assert not box.exists()
        assert await store.workers() == ()
    finally:
        holder.end()


async def test_told_twice_it_frees_once(lines: Lines, store: Store, url: str) -> None:
    (run,) = await held_by(store, "dead")
    clerk = await serving(lines, url)
    for _ in range(3):
        clerk.say(Bury(incarnation="dead"))
    freed = await clerk.told(Buried, final=False)
    (again,) = await store.claim(request(incarnation="alive"))
    last = await clerk.told(Buried, final=True)
    assert (freed.run_ids, last.run_ids, again.token.run_id) == ((run,), (), run)
    clerk.say(Bury(incarnation="dead"))
    repeated = await clerk.told(Buried, final=True)
    assert repeated.run_ids == ()
    assert await status_of(store, run) is RunStatus.running


async def test_a_clerk_killed_before_its_answer_loses_nothing(
    lines: Lines, store: Store, url: str, tmp_path: Path
) -> None:
    (run,) = await held_by(store, "dead")
    first = await serving(lines, url, "first")
    with keeping_others_from_writing(tmp_path):
        first.say(Bury(incarnation="dead"))
        # its own complaint is the proof that it has gone to the store
        await first.told(Queue, store_ok=False)
        await first.kill()
        assert not [said for said in first.said if isinstance(said, Buried)]
    assert await status_of(store, run) is RunStatus.running
    second = await serving(lines, url, "second")
    second.say(Bury(incarnation="dead"))
    assert (await second.told(Buried, final=False)).run_ids == (run,)


async def test_during_an_outage_the_dead_are_kept(lines: Lines, store: Store, url: str, tmp_path: Path) -> None:
    (run,) = await held_by(store, "dead")
    clerk = await serving(lines, url)
    with keeping_others_from_writing(tmp_path):
        clerk.say(Bury(incarnation="dead"))
        outage = await clerk.told(Queue, store_ok=False)
        assert "write lock" in outage.store_fault
    assert (await clerk.told(Buried, final=False)).run_ids == (run,)
    await clerk.told(Queue, store_ok=True)


async def test_a_store_that_is_away_at_the_start_is_waited_for(lines: Lines, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.write_text("not mounted yet")
    clerk = lines.spawn(start_of(Role.clerk, "clerk", f"sqlite:///{disk}/s.db"))
    assert "waits for the store" in (await clerk.told(Ready)).note
    clerk.say(Bury(incarnation="dead"))
    assert "cannot be opened" in (await clerk.told(Queue, store_ok=False)).store_fault
    disk.unlink()
    await clerk.told(Buried, final=True)
    assert sum(isinstance(said, Ready) for said in clerk.said) == 1
    assert any(isinstance(said, Queue) and said.store_ok for said in clerk.said)


async def test_the_dead_whom_nobody_names_are_found_by_their_boxes(
    lines: Lines, store: Store, url: str, tmp_path: Path
) -> None:
    with ExitStack() as ends:
        holders = [Holder(tmp_path / "run" / "pyrula") for _ in range(3)]
        for holder in holders:
            ends.callback(holder.end)
        boxes = [holder.create(f"w{n}", store.identity) for n, holder in enumerate(holders)]
        runs = [(await held_by(store, f"w{n}"))[0] for n in range(3)]
        holders[0].kill()
        clerk = await serving(lines, url)
        assert [await status_of(store, run) for run in runs] == [RunStatus.queued, *[RunStatus.running] * 2]
        holders[1].kill()
        async with asyncio.timeout(10):
            while boxes[0].exists() or boxes[1].exists():
                await clerk.told(Queue)
        assert [await status_of(store, run) for run in runs] == [*[RunStatus.queued] * 2, RunStatus.running]
        assert boxes[2].exists()


async def test_it_counts_what_is_open_and_tells_no_secret(lines: Lines, store: Store, url: str) -> None:
    await held_by(store, "alive", 2)
    await store.submit(new_run())
    clerk = await serving(lines, url)
    told = await clerk.told(Queue)
    assert told.counts == {"queued": 1, "running": 2, "suspects": 0}
    assert (told.store_url, told.store_ok, told.store_fault) == (store.url, True, "")
    await store.submit(new_run())
    assert (await clerk.told(Queue)).counts == {"queued": 2, "running": 2, "suspects": 0}


async def test_a_drain_ends_it_after_what_it_was_told(lines: Lines, store: Store, url: str) -> None:
    (run,) = await held_by(store, "dead")
    clerk = await serving(lines, url)
    clerk.say(Bury(incarnation="dead"))
    clerk.say(Drain())
    assert (await clerk.told(Buried)).run_ids == (run,)
    assert await clerk.ended() == 0
    assert await status_of(store, run) is RunStatus.queued


async def test_a_drain_without_a_store_ends(lines: Lines, url: str, tmp_path: Path) -> None:
    store = open_store(url)
    await store.open()
    await store.close()
    with keeping_others_from_writing(tmp_path):
        clerk = lines.spawn(start_of(Role.clerk, "clerk", url))
        await clerk.told(Hello)
        clerk.say(Bury(incarnation="dead"))
        clerk.say(Drain())
        assert await clerk.ended() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_signals_meant_for_all_do_not_end_it(
    lines: Lines, store: Store, url: str, number: signal.Signals
) -> None:
    clerk = await serving(lines, url)
    clerk.send(number)
    clerk.say(Bury(incarnation="dead"))
    await clerk.told(Buried, final=True)


async def test_it_ends_with_its_supervisor(lines: Lines, store: Store, url: str) -> None:
    clerk = await serving(lines, url)
    clerk.hang_up()
    assert await clerk.ended() == 0


async def test_a_store_that_must_not_be_used_is_refused(lines: Lines, tmp_path: Path) -> None:
    (tmp_path / "s.db").write_text("a letter to my aunt, and by no means a database\n" * 100)
    clerk = lines.spawn(start_of(Role.clerk, "clerk", f"sqlite:///{tmp_path}/s.db"))
    told = await clerk.told(CannotStart)
    assert (told.exit_code, str(tmp_path / "s.db") in told.reason) == (78, True)
    assert await clerk.ended() == 78


async def test_a_stranger_on_the_line_changes_nothing(lines: Lines, store: Store, url: str) -> None:
    clerk = await serving(lines, url)
    clerk.ours.send(b"{}")
    socket.send_fds(clerk.ours, [b"no message"], [2])
    clerk.say(Bury(incarnation="dead"))
    await clerk.told(Buried, final=True)


async def test_a_death_that_blames_is_told_before_the_burial_and_its_suspect_counted_at_once(
    lines: Lines, store: Store, url: str, tmp_path: Path
) -> None:
    worker = Dying(tmp_path / "run" / "pyrula", store, "dead", "worker")
    try:
        one, other = await worker.claim(2)
        worker.execute(one)
        worker.kill()
        clerk = await serving(lines, url)
        await clerk.told(Queue)
        clerk.say(Bury(incarnation="dead", finding=Finding(cause="crashed", worker="worker 0")))
        told = await clerk.told(Judged, run_id=one.token.run_id)
        assert (told.worker, told.workflow, told.cause, told.step) == ("dead", "order", "crashed", "pay")
        assert (told.charged, told.marked, told.suspect, told.quarantined) == (0, True, True, False)
        assert not [said for said in clerk.said if isinstance(said, Buried)]
        neighbour = await clerk.told(Judged, run_id=other.token.run_id)
        assert (neighbour.marked, neighbour.suspect) == (True, False)
        # its round alone would come later than the second look
        assert (await clerk.told(Queue)).counts == {"suspects": 1, "queued": 2}
        assert not [said for said in clerk.said if isinstance(said, Buried) and said.final]
    finally:
        worker.end()


async def test_the_poison_options_are_the_budget(lines: Lines, store: Store, url: str, tmp_path: Path) -> None:
    worker = Dying(tmp_path / "run" / "pyrula", store, "dead", "worker")
    try:
        (claim,) = await worker.claim()
        worker.execute(claim)
        worker.kill()
        clerk = lines.spawn(start_of(Role.clerk, "clerk", url, options={"poison_max_retries": 0}))
        await clerk.told(Ready)
        clerk.say(Bury(incarnation="dead", finding=Finding(cause="exited", exit="exited with code 7")))
        told = await clerk.told(Judged)
        assert (told.charged, told.quarantined, told.suspect) == (1, True, False)
        assert await status_of(store, claim.token.run_id) is RunStatus.quarantined
        assert (await clerk.told(Queue, counts={"suspects": 0, "quarantined": 1})).store_ok
    finally:
        worker.end()


async def test_it_stands_in_for_a_mute_worker_until_that_is_over(lines: Lines, store: Store, url: str) -> None:
    kept, *others = await held_by(store, "mute", 3)
    clerk = await serving(lines, url)
    before = await store.read(kept)
    clerk.say(StandIn(incarnation="mute", stage=Stage.renew))

    async def renewed() -> bool:
        record = await store.read(kept)
        assert record is not None
        assert record.lock_left_ms is not None
        # the clerk's locks live as long as its options say, which is longer than that of the claim
        return before is not None and record.lock_left_ms > (before.lock_left_ms or 0)

    await until(renewed)
    clerk.say(StandIn(incarnation="mute", stage=Stage.evacuate, keep=kept))
    told = await clerk.told(Evacuated, worker="mute")
    assert sorted(told.run_ids) == sorted(others)
    assert [await status_of(store, run) for run in (kept, *others)] == [RunStatus.running, *[RunStatus.queued] * 2]
    clerk.say(StandIn(incarnation="mute", stage=Stage.over))
    clerk.say(Bury(incarnation="mute", finding=Finding(cause="loop_blocked", guilty=kept, entries=1)))
    assert (await clerk.told(Buried, incarnation="mute")).run_ids == (kept,)


async def test_it_drops_runs_whose_time_is_over(lines: Lines, store: Store, url: str) -> None:
    (over,) = await held_by(store, "one")
    (claim,) = await store.holdings("one")
    await store.commit(appending(claim.token, 0, ending=COMPLETED))
    (alive,) = await held_by(store, "other")
    clerk = lines.spawn(start_of(Role.clerk, "clerk", url, options={"retention": 1e-3}))
    await clerk.told(Ready)

    async def is_gone() -> bool:
        return await store.read(over) is None

    await until(is_gone)
    assert await status_of(store, alive) is RunStatus.running


async def test_clerks_fire_schedules_in_their_time_and_each_time_once(lines: Lines, store: Store, url: str) -> None:
    state = await put(store, SystemClock(), Schedule(every=1, overlap="allow"))
    clerks = [await serving(lines, url, name) for name in ("clerk-1", "clerk-2")]

    async def has_fired() -> bool:
        return len(await runs_of(store)) >= 3

    await until(has_fired)
    for clerk in clerks:
        await clerk.kill()
    found = await runs_of(store)
    first_ms = (state.after_ms // 1000 + 1) * 1000
    assert found == [run_id_of(store, state, first_ms + 1000 * number) for number in range(len(found))]
    for number, run in enumerate(found):
        record = await store.read(run)
        assert record is not None
        assert record.created_ms >= first_ms + 1000 * number


async def test_it_wakes_runs_whose_time_has_come(lines: Lines, store: Store, url: str) -> None:
    await serving(lines, url)
    due_ms = time.time_ns() // 1_000_000 + 200  # earlier than the round would come by itself
    claim = await suspended(store, due_ms=due_ms)

    async def is_woken() -> bool:
        return await status_of(store, claim.token.run_id) is RunStatus.queued

    await until(is_woken)
    assert time.time_ns() // 1_000_000 >= due_ms
