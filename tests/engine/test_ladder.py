"""The rungs of a stuck lane: who goes when, who is charged, and what an outage of the store changes."""

from __future__ import annotations

import asyncio

import pytest

from pyrula_runtime.core.blame import Budget, Cause, Mark, Record
from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.codec import dossier_of, load_error, load_record
from pyrula_runtime.engine.conviction import Court
from pyrula_runtime.engine.current import Current
from pyrula_runtime.engine.ladder import Ladder, Rungs
from pyrula_runtime.engine.watchdog import Block
from pyrula_runtime.stores.protocol import CLEAN, Release
from tests.engine.control import Desk, token

RUNGS = Rungs(evacuate_s=30, limit_s=90, limits_s={"long": 600})
GUILTY = Current(run_id="g", workflow="flow", op_id="work#1", step="work")


def block(for_s: float, whose: Current | None = GUILTY) -> Block:
    return Block(for_s=for_s, whose=whose, line="app.py:7 in work: time.sleep(99)", stack="the stack")


class Scene:
    """A lane with three runs, and what the watchdog says of it."""

    def __init__(self, *, plain: bool = True) -> None:
        self.desk = Desk()
        self.desk.store.held = {"g": CLEAN, "a": CLEAN, "b": CLEAN}
        self.desk.lanes.turns = [token(run_id) for run_id in "gab"]
        self.seen: Block | None = None
        self.evacuated: list[tuple[str, ...]] = []
        self.given_up: list[Block] = []
        self.ladder = Ladder(
            self.desk.protocol,
            self.desk.lanes,
            RUNGS,
            stuck=lambda: self.seen,
            evacuated=self.evacuated.append,
            give_up=self._give_up if plain else None,
        )

    async def _give_up(self, block: Block) -> None:
        self.given_up.append(block)

    async def at(self, for_s: float, whose: Current | None = GUILTY) -> None:
        """The watchdog has seen the lane stuck for so long."""
        self.seen = block(for_s, whose)
        await self.ladder.act()


async def test_a_lane_that_is_not_stuck_is_left_alone() -> None:
    scene = Scene()
    await scene.ladder.act()
    assert (scene.desk.lanes.condemned, scene.ladder.rest_s) == ([], 3600)


@pytest.mark.parametrize(("for_s", "rest_s"), [(2, 28), (29.999, 0.02), (31, 59), (89, 1)])
async def test_it_rests_until_the_next_rung(for_s: float, rest_s: float) -> None:
    scene = Scene()
    await scene.at(for_s)
    assert scene.ladder.rest_s == pytest.approx(rest_s, abs=0.01)


async def test_the_others_are_handed_back_uncharged_and_told_once() -> None:
    scene = Scene()
    await scene.at(29)
    assert scene.desk.store.released == []
    await scene.at(30)
    await scene.at(31)
    assert scene.desk.store.given_back == ["a", "b"]
    assert scene.desk.statuses() == {(RunStatus.queued, True, False)}
    assert scene.evacuated == [("a", "b")]
    assert scene.given_up == []


async def test_for_code_of_no_run_all_are_handed_back() -> None:
    scene = Scene()
    await scene.at(30, None)
    assert scene.evacuated == [("g", "a", "b")]


async def test_runs_that_ended_by_themselves_meanwhile_are_not_told_of() -> None:
    scene = Scene()
    del scene.desk.store.held["a"]
    await scene.at(30)
    assert scene.evacuated == [("b",)]


async def test_what_the_store_did_not_take_is_handed_back_later_even_if_the_lane_goes_on_by_then() -> None:
    scene = Scene()
    scene.desk.store.fails = True
    with pytest.raises(StoreUnavailable):
        await scene.at(30)
    scene.desk.store.fails = False
    scene.seen = None
    await scene.ladder.act()
    assert scene.evacuated == [("a", "b")]


@pytest.mark.parametrize(("workflow", "limit_s"), [("flow", 90), ("long", 600)])
async def test_the_limit_is_that_of_the_workflow(workflow: str, limit_s: float) -> None:
    scene = Scene()
    whose = Current(run_id="g", workflow=workflow)
    await scene.at(limit_s - 1, whose)
    assert scene.given_up == []
    await scene.at(limit_s, whose)
    assert [each.for_s for each in scene.given_up] == [limit_s]


async def test_with_a_supervisor_the_last_rung_is_not_ours() -> None:
    scene = Scene(plain=False)
    await scene.at(1000)
    assert scene.evacuated == [("a", "b")]
    assert scene.ladder.rest_s == 30


async def test_the_watchdog_wakes_it() -> None:
    scene = Scene()
    await asyncio.to_thread(scene.ladder.wake)
    await asyncio.wait_for(scene.ladder.nudge.wait(), 10)


# the court of a worker without a supervisor


def court(desk: Desk, *, alone: bool = False, forgiven: int = 3) -> Court:
    return Court(
        store=desk.protocol,
        incarnation="w",
        worker_id="worker-1",
        budget=Budget(max_retries=forgiven),
        is_alone=lambda: alone,
    )


def verdict(desk: Desk) -> tuple[Release, Record]:
    """How the guilty run was given back, and what is held against it."""
    (release,) = [each for each in desk.store.released if each.token.run_id == "g"]
    assert release.dossier is not None
    return release, load_record(release.dossier.record)


async def test_the_guilty_is_charged_with_its_line_and_the_others_go_back_as_they_were() -> None:
    desk = Desk()
    desk.store.held = {"g": CLEAN, "a": CLEAN}
    await court(desk).convict(block(91), 5_000)
    release, record = verdict(desk)
    assert (release.status, release.ready, record.is_suspect) == (RunStatus.queued, True, True)
    (charge,) = record.charges
    evidence = charge.evidence
    assert (evidence.cause, evidence.step, evidence.op_id, evidence.for_ms) == (
        Cause.loop_blocked,
        "work",
        "work#1",
        91_000,
    )
    assert evidence.line == "app.py:7 in work: time.sleep(99)"
    assert (evidence.worker, charge.at_ms) == ("worker-1", 5_000)
    assert [(each.token.run_id, each.dossier) for each in desk.store.released if each is not release] == [("a", None)]


async def test_a_charge_past_the_budget_quarantines_with_the_evidence() -> None:
    desk = Desk()
    desk.store.held = {"g": CLEAN}
    await court(desk, forgiven=0).convict(block(91), 5_000)
    release, _ = verdict(desk)
    assert (release.status, release.ready) == (RunStatus.quarantined, False)
    error = load_error(release.error or b"")
    assert (error.type, error.detail["reason"], error.detail["cause"]) == (
        "EventLoopBlocked",
        "poison",
        "loop_blocked",
    )


@pytest.mark.parametrize(("alone", "charges"), [(False, 1), (True, 2)])
async def test_alone_it_pays_for_its_marks_as_well(*, alone: bool, charges: int) -> None:
    desk = Desk()
    mark = Mark(at_ms=1, cause=Cause.killed, worker="w")
    desk.store.held = {"g": dossier_of(Record(marks=(mark,), is_suspect=True))}
    await court(desk, alone=alone).convict(block(91), 5_000)
    assert len(verdict(desk)[1].charges) == charges


async def test_code_of_no_run_charges_nobody() -> None:
    desk = Desk()
    desk.store.held = {"g": CLEAN, "a": CLEAN}
    await court(desk).convict(block(91, None), 5_000)
    assert desk.statuses() == {(RunStatus.queued, True, False)}


async def test_an_isolated_turn_is_charged_without_the_others() -> None:
    desk = Desk()
    desk.store.held = {"g": CLEAN, "a": CLEAN}
    await court(desk).charge(block(91), 5_000)
    assert desk.store.given_back == ["g"]
