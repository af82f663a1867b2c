"""Workflows that tell events: once, whatever crashes, and other workflows begin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyrula.testing import Simulation, crash_everywhere
from pyrula.workflows import InputError, UsageError, WorkflowContext, step, workflow
from tests.store.samples import until
from tests.workflows.serving import LIMIT_S, served


@step
def charge(total: int) -> str:
    return f"{total} paid"


@workflow
async def emitting_shop(ctx: WorkflowContext, totals: list[int]) -> None:
    for total in totals:
        await ctx.step(charge, total)
        await ctx.emit("emitting.sold", {"total": total})


@workflow
def emitting_plain(ctx: Any, total: int) -> str:
    ctx.emit("emitting.sold", {"total": total}, id="a sale")
    ctx.emit("emitting.sold", {"total": total + 1}, id="a sale")
    return "told"


@workflow(on_event="emitting.sold")
async def emitting_books(ctx: WorkflowContext, total: int) -> int:
    return total


def booked(simulation: Simulation) -> list[Any]:
    return sorted(run.result() for run in simulation.runs if run.workflow == "emitting_books")


def sell(simulation: Simulation) -> list[Any]:
    simulation.run(emitting_shop, {"totals": [5, 7, 5]})
    simulation.advance(60)
    return booked(simulation)


def test_each_event_is_told_once_wherever_its_worker_crashes() -> None:
    with Simulation(workflows=[emitting_shop, emitting_books]) as simulation:
        assert sell(simulation) == [5, 5, 7]
    crash_everywhere(sell, workflows=[emitting_shop, emitting_books])


def test_an_event_with_an_id_is_told_once_by_all() -> None:
    with Simulation(workflows=[emitting_plain, emitting_books]) as simulation:
        for total in (5, 7):
            assert simulation.run(emitting_plain, {"total": total}).result() == "told"
        simulation.advance(60)
        assert booked(simulation) == [5]


async def test_a_real_worker_tells_and_hears(tmp_path: Path) -> None:
    async with served(tmp_path, emitting_shop, emitting_books) as client:
        run = await client.submit(emitting_shop, {"totals": [3]})
        await run.result(LIMIT_S)
        told = await run.describe()
        assert [(entry["op"], entry["op_id"]) for entry in told["journal"]] == [
            ("step", "charge#1"),
            ("emit", "emitting.sold#1"),
        ]

        async def has_begun() -> bool:
            return bool(await client.list(emitting_books))

        await until(has_begun)
        (begun,) = await client.list(emitting_books)
        assert await client.result(begun.run_id, LIMIT_S) == 3


@workflow
async def emitting_wrong(ctx: WorkflowContext, what: str) -> str:
    wrong: dict[str, Any] = {
        "name": lambda: ctx.emit("no name!"),
        "payload": lambda: ctx.emit("emitting.sold", object()),
        "id": lambda: ctx.emit("emitting.sold", id=""),
    }
    try:
        await wrong[what]()
    except (UsageError, InputError) as error:
        return str(error)
    return "nothing was refused"


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("name", "event name 'no name!' must be"),
        ("payload", "the payload of event 'emitting.sold'"),
        ("id", "event id '' must be 1 to 512 printable characters"),
    ],
)
def test_what_is_no_event_is_refused_in_a_sentence(what: str, said: str) -> None:
    with Simulation() as simulation:
        assert said in simulation.run(emitting_wrong, {"what": what}).result()
