"""Burials with verdicts: real boxes of processes that died, a real store, and what becomes of each run."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pyrula_runtime.blackbox import BoxView, read_box
from pyrula_runtime.core.blame import Budget, Cause, Record
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.duties.blaming import Blamed
from pyrula_runtime.duties.burial import PARENTS_TURN_MS, SECOND_LOOK_MS, Burial, free_all
from pyrula_runtime.engine.codec import load_error, load_record
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.partly import PartlyUnavailable
from pyrula_runtime.stores.protocol import CLEAN, Holding, RunRecord, Store
from pyrula_runtime.wire import Finding
from tests.blackbox.holder import wait_gone
from tests.duties.dying import Dying
from tests.store.samples import claimed, request

CRASHED = Finding(cause="crashed", worker="worker 1", exit="was killed by SIGSEGV")
Start = Callable[..., Dying]
Blames = list[tuple[str, Blamed]]


@pytest.fixture
def start(tmp_path: Path, store: Store) -> Iterator[Start]:
    started: list[Dying] = []

    def start_one(incarnation: str, role: str = "worker") -> Dying:
        started.append(Dying(tmp_path / "run", store, incarnation, role))
        return started[-1]

    yield start_one
    for each in started:
        each.end()


@pytest.fixture
def blames() -> Blames:
    return []


@pytest.fixture
def burial(tmp_path: Path, store: Store, clock: ManualClock, blames: Blames) -> Burial:
    return Burial(store, tmp_path / "run", clock, Budget(), lambda who, blamed: blames.append((who, blamed)))


async def record_of(store: Store, run_id: str) -> RunRecord:
    record = await store.read(run_id)
    assert record is not None
    return record


async def against(store: Store, run_id: str) -> Record:
    return load_record((await record_of(store, run_id)).dossier.record)


async def test_a_crash_among_neighbours_marks_all_and_suspects_who_executed(
    start: Start, store: Store, burial: Burial
) -> None:
    worker = start("w")
    one, other = await worker.claim(2)
    worker.execute(one)
    worker.kill()
    look = await burial.look("w", CRASHED)
    assert (set(look.freed), look.final) == ({one.token.run_id, other.token.run_id}, False)
    mine, neighbours = sorted(look.blamed, key=lambda each: not each.suspect)
    assert (mine.run_id, mine.cause, mine.step, mine.charged, mine.marked) == (
        one.token.run_id,
        Cause.crashed,
        "pay",
        0,
        True,
    )
    assert (neighbours.marked, neighbours.suspect, neighbours.step) == (True, False, "")
    assert await store.suspects() == 1
    (mark,) = (await against(store, one.token.run_id)).marks
    assert (mark.op_id, mark.step, mark.executing, mark.worker) == ("pay#1", "pay", True, "worker 1")
    assert [claim.token.run_id for claim in await store.claim(request())] == [other.token.run_id]


async def test_a_run_that_crashes_every_worker_goes_from_mark_to_cell_to_quarantine(
    start: Start, store: Store, burial: Burial
) -> None:
    worker = start("w")
    one, other = await worker.claim(2)
    worker.execute(one)
    worker.kill()
    await burial.look("w", CRASHED)
    charges = []
    for number in range(3):
        cell = start(f"cell-{number}", "cell")
        (claim,) = await cell.claim(suspects=True)
        assert claim.token.run_id == one.token.run_id
        cell.execute(claim)
        cell.crash()
        (blamed,) = (await burial.look(cell.incarnation, Finding(cause="crashed", exit="SIGSEGV"))).blamed
        charges.append((blamed.charged, blamed.suspect, blamed.quarantined))
    assert charges == [(2, True, False), (1, True, False), (1, False, True)]
    record = await record_of(store, one.token.run_id)
    assert (record.status, await store.suspects()) == (RunStatus.quarantined, 0)
    assert record.error is not None
    error = load_error(record.error)
    assert (error.type, error.detail["reason"], error.detail["cause"]) == ("WorkerCrashed", "poison", "crashed")
    evidence = error.detail["evidence"]
    assert isinstance(evidence, dict)
    assert (evidence["step"], evidence["worker"], evidence["exit"]) == ("pay", "cell-2", "SIGSEGV")
    assert "string_at" in str(evidence["stack"])
    assert len((await against(store, one.token.run_id)).charges) == 4
    assert (await record_of(store, other.token.run_id)).status is RunStatus.queued


async def test_alone_and_executing_it_is_charged_once_however_often_it_is_told(
    start: Start, store: Store, burial: Burial, tmp_path: Path, clock: ManualClock
) -> None:
    worker = start("w")
    (claim,) = await worker.claim()
    worker.execute(claim)
    worker.kill()
    second = Burial(store, tmp_path / "run", clock, Budget())
    looks = await asyncio.gather(*(each.look("w", CRASHED) for each in (burial, second, burial, second)))
    assert sum(len(look.blamed) for look in looks) == 1
    assert sum(len(look.freed) for look in looks) == 1
    assert len((await against(store, claim.token.run_id)).charges) == 1
    assert (await burial.look("w", CRASHED)).blamed == ()


async def test_the_last_look_takes_the_traces_away(start: Start, burial: Burial, clock: ManualClock) -> None:
    cell = start("c", "cell")
    (claim,) = await cell.claim()
    cell.execute(claim)
    cell.crash()
    assert not (await burial.look("c", CRASHED)).final
    assert cell.box.exists()
    assert cell.stack.exists()
    clock.move(SECOND_LOOK_MS)
    assert (await burial.look("c", CRASHED)).final
    assert not cell.box.exists()
    assert not cell.stack.exists()


async def test_a_claim_that_came_after_the_death_is_freed_and_not_blamed(
    start: Start, store: Store, burial: Burial, clock: ManualClock
) -> None:
    cell = start("c", "cell")
    (claim,) = await cell.claim()
    cell.execute(claim)
    cell.kill()
    killed = Finding(cause="killed", in_cell=True)
    (blamed,) = (await burial.look("c", killed)).blamed
    assert (blamed.marked, blamed.suspect) == (True, True)
    # the very run comes back to the dead, by a claim that was on its way
    (late,) = await store.claim(request(incarnation="c", suspects=True))
    assert late.token.run_id == claim.token.run_id
    clock.move(SECOND_LOOK_MS)
    look = await burial.look("c", killed)
    assert (look.freed, look.blamed, look.final) == ((claim.token.run_id,), (), True)
    assert len((await against(store, claim.token.run_id)).marks) == 1
    assert await store.suspects() == 1


@pytest.mark.parametrize(("entries", "charged"), [(5_000_002, 1), (5_000_001, 0)])
async def test_a_block_is_charged_if_the_box_still_shows_the_entry_that_was_seen(
    start: Start, store: Store, burial: Burial, entries: int, charged: int
) -> None:
    worker = start("w")
    guilty, other = await worker.claim(2)
    worker.execute(other)
    worker.execute(guilty)
    worker.kill()
    finding = Finding(cause="loop_blocked", guilty=guilty.token.run_id, entries=entries, for_ms=90_000, line="a.py:1")
    look = await burial.look("w", finding)
    assert len(look.freed) == 2
    assert [(each.run_id, each.charged, each.line) for each in look.blamed] == [
        (guilty.token.run_id, 1, "a.py:1")
    ] * charged
    assert (await record_of(store, other.token.run_id)).dossier == CLEAN


async def test_a_planned_end_blames_nobody(start: Start, store: Store, burial: Burial) -> None:
    worker = start("w")
    (claim,) = await worker.claim()
    worker.execute(claim)
    worker.kill()
    look = await burial.look("w", Finding(cause="blameless"))
    assert (look.freed, look.blamed) == ((claim.token.run_id,), ())
    assert (await record_of(store, claim.token.run_id)).dossier == CLEAN


async def test_whoever_is_named_without_a_box_is_freed_and_blamed_for_nothing(store: Store, burial: Burial) -> None:
    claim = await claimed(store, "ghost")
    look = await burial.look("ghost", CRASHED)
    assert (look.freed, look.blamed) == ((claim.token.run_id,), ())


async def test_the_round_judges_a_plain_worker_that_was_killed(
    start: Start, store: Store, burial: Burial, blames: Blames, caplog: pytest.LogCaptureFixture
) -> None:
    worker = start("w", "plain")
    one, other = await worker.claim(2)
    worker.execute(one)
    worker.kill()
    await burial.act()
    ((who, blamed),) = blames
    assert (who, blamed.run_id, blamed.cause, blamed.suspect) == ("w", one.token.run_id, Cause.killed, True)
    assert (await record_of(store, other.token.run_id)).dossier == CLEAN
    (told,) = [each for each in caplog.records if getattr(each, "event", "") == "run:mark"]
    assert (vars(told)["run_id"], vars(told)["step"]) == (one.token.run_id, "pay")


async def test_the_round_leaves_the_child_of_a_living_parent_to_it_for_a_while(
    start: Start, store: Store, burial: Burial, blames: Blames, clock: ManualClock
) -> None:
    worker = start("w")
    (claim,) = await worker.claim()
    worker.execute(claim)
    worker.kill()
    await burial.act()
    clock.move(PARENTS_TURN_MS - 1)
    await burial.act()
    assert (await record_of(store, claim.token.run_id)).status is RunStatus.running
    clock.move(1)
    await burial.act()
    record = await record_of(store, claim.token.run_id)
    assert (record.status, record.dossier, blames) == (RunStatus.queued, CLEAN, [])
    clock.move(SECOND_LOOK_MS)
    await burial.act()
    assert not worker.box.exists()


async def test_a_child_whose_parent_is_dead_too_is_buried_at_once(start: Start, store: Store, burial: Burial) -> None:
    parent = start("parent", "plain")
    (claim,) = await parent.claim()
    token = claim.token
    child = parent.outlived_by(
        "code = '''\n"
        "import sys, time\n"
        "from pathlib import Path\n"
        "from pyrula_runtime.blackbox import *\n"
        f"box = BlackBox.create(Path({str(parent.box.parents[1])!r}), incarnation='child', worker_id='c',\n"
        f"    store_identity={store.identity!r}, now_ms=1, role='worker')\n"
        f"print('there', flush=True)\n"
        "time.sleep(600)\n"
        "'''\n"
        "process = subprocess.Popen([sys.executable, '-c', code], stdout=subprocess.PIPE)\n"
        "process.stdout.readline()\n"
        "answer = process.pid"
    )
    parent.kill()
    await burial.act()
    assert not (await store.holdings("parent"))
    (again,) = await store.claim(request(incarnation="child"))
    assert again.token.run_id == token.run_id
    os.kill(child, signal.SIGKILL)
    wait_gone(child)
    await burial.act()
    assert await store.holdings("child") == ()


async def test_a_clean_drain_frees_without_a_verdict(start: Start, store: Store) -> None:
    worker = start("w")
    (claim,) = await worker.claim()
    worker.execute(claim)
    assert await free_all(store, "w") == (claim.token.run_id,)
    assert await free_all(store, "w") == ()
    assert (await record_of(store, claim.token.run_id)).dossier == CLEAN


async def test_nobody_is_blamed_whose_neighbours_are_unknown_because_a_box_is_torn_and_a_node_is_away(
    start: Start, store: Store, burial: Burial, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = start("w")
    guilty, innocent = await worker.claim(2)
    worker.execute(guilty)
    worker.kill()
    seen = tuple(each for each in await store.holdings("w") if each.token == innocent.token)

    async def partly(incarnation: str) -> tuple[Holding, ...]:
        raise PartlyUnavailable("a node is away", seen)

    def torn(path: Path) -> BoxView | None:
        view = read_box(path)
        return view and replace(view, in_flight=(), in_flight_complete=False)

    monkeypatch.setattr("pyrula_runtime.duties.burial.read_box", torn)
    with monkeypatch.context() as away:
        away.setattr(store, "holdings", partly)
        look = await burial.look("w", CRASHED)
    assert (look.freed, look.blamed, look.final) == ((innocent.token.run_id,), (), False)
    assert look.fault is not None
    await burial.act()  # leaves it to its supervisor, and forgets nothing
    look = await burial.look("w", CRASHED)
    assert (look.freed, look.blamed, look.final) == ((guilty.token.run_id,), (), False)
