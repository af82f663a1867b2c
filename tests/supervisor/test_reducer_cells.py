"""Cells as the reducer starts them: as many as suspects wait, at once after one that died of its run, else later."""

from __future__ import annotations

from pyrula_runtime.wire import Judged, Queue, Role
from tests.supervisor.fake_processes import Process, World, running

SIGSEGV = 11


def suspects(on: World, count: int) -> None:
    """The clerk has counted so many that wait."""
    (clerk,) = on.of(Role.clerk)
    on.say(clerk, Queue(incarnation=clerk.name, store_ok=True, store_url="", counts={"suspects": count}))
    on.tick()


def judged(on: World, dead: Process, *, quarantined: bool = False) -> None:
    """A burial has charged the run that a worker held."""
    (clerk,) = on.of(Role.clerk)
    told = Judged(
        incarnation=clerk.name,
        worker=dead.name,
        run_id="r",
        workflow="w",
        cause="crashed",
        charged=1,
        suspect=not quarantined,
        quarantined=quarantined,
    )
    on.say(clerk, told)
    on.tick()


def cell(on: World) -> Process:
    """The one cell, ready."""
    (found,) = on.of(Role.cell)
    on.be_born(found)
    on.be_ready(found)
    return found


def test_there_are_as_many_cells_as_suspects_but_no_more_than_procs() -> None:
    on = running(procs=2)
    suspects(on, 5)
    assert len(on.of(Role.cell)) == 2


def test_a_cell_that_died_of_its_run_is_followed_at_once_however_often() -> None:
    on = running(procs=2)
    suspects(on, 1)
    for _ in range(10):
        dead = cell(on)
        on.die(dead, SIGSEGV)
        judged(on, dead)
    assert len(on.of(Role.cell)) == 1
    on.die(last := cell(on), SIGSEGV)
    judged(on, last, quarantined=True)
    assert on.of(Role.cell) == []


def test_a_cell_that_ran_nothing_is_followed_ever_later() -> None:
    on = running(procs=2)
    suspects(on, 1)
    for _ in range(4):
        on.die(cell(on), 1 << 8)
        suspects(on, 1)
        on.wait(2_500)
    on.die(cell(on), 1 << 8)
    suspects(on, 1)
    on.wait(2_500)
    assert on.of(Role.cell) == []
