"""Priorities and delayed starts: which run a worker takes first, and from when on."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pyrula.workflows import RunStatus, UsageError, WorkflowClient, WorkflowContext, workflow
from tests.workflows.serving import LIMIT_S, served, worker_in

begun: list[str] = []


@workflow
async def placed_order(ctx: WorkflowContext, name: str) -> str:
    begun.append(name)
    return name


async def test_a_higher_priority_is_taken_first(client: WorkflowClient, tmp_path: Path) -> None:
    begun.clear()
    chosen = {"low": -5, "usual": 0, "high": 7, "highest": 1000, "usual, later": 0}
    runs = [await client.submit(placed_order, name, priority=each) for name, each in chosen.items()]
    assert sorted(run.priority for run in await client.list(placed_order)) == [-5, 0, 0, 7, 1000]
    assert (await runs[0].describe())["priority"] == -5
    async with worker_in(tmp_path, placed_order):
        for run in runs:
            await run.result(LIMIT_S)
    assert begun == ["highest", "high", "usual", "usual, later", "low"]


async def test_a_run_begins_no_sooner_than_its_delay(tmp_path: Path) -> None:
    async with served(tmp_path, placed_order) as client:
        run = await client.submit(placed_order, "late", delay=0.3)
        told = await run.describe()
        assert told["start_at_ms"] == told["due_ms"]
        assert await run.result(LIMIT_S) == "late"
        done = await run.describe()
        assert done["started_ms"] >= told["start_at_ms"]


async def test_a_run_waits_for_the_moment_it_was_given(client: WorkflowClient, tmp_path: Path) -> None:
    moment = datetime(2100, 1, 1, tzinfo=UTC)
    run = await client.submit(placed_order, "next century", start_at=moment)
    assert await run.status() is RunStatus.waiting
    (listed,) = await client.list(placed_order)
    assert listed.start_at_ms == listed.due_ms == 1000 * int(moment.timestamp())
    await run.cancel()
    assert await run.status() is RunStatus.cancelled


LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("start", [{"delay": 0}, {"delay": timedelta()}, {"start_at": LONG_AGO}])
async def test_what_is_over_is_no_delay(client: WorkflowClient, start: dict[str, Any]) -> None:
    run = await client.submit(placed_order, "now", **start)
    told = await run.describe()
    assert (told["status"], told["start_at_ms"]) == ("queued", None)


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ({"priority": 1001}, "priority=1001 must be a whole number from -1000 to 1000"),
        ({"priority": 0.5}, "priority=0.5 must be a whole number"),
        ({"priority": True}, "priority=True must be a whole number"),
        ({"delay": -1}, "delay=-1 must be a number of seconds from 0 to a century"),
        ({"delay": float("inf")}, "delay=inf must be"),
        ({"delay": "1h"}, "delay='1h' must be"),
        ({"start_at": datetime(2100, 1, 1)}, "must be a datetime that says its time zone"),
        ({"start_at": "2100-01-01"}, "must be a datetime that says its time zone"),
        ({"delay": 1, "start_at": datetime(2100, 1, 1, tzinfo=UTC)}, "give delay= or start_at=, not both"),
    ],
)
async def test_what_is_no_place_is_refused_in_a_sentence(
    client: WorkflowClient, place: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        await client.submit(placed_order, "never", **place)
    assert await client.list() == ()


async def test_many_that_are_put_off_to_one_moment_all_begin(tmp_path: Path) -> None:
    begun.clear()
    async with served(tmp_path, placed_order) as client:
        moment = datetime.now(UTC) + timedelta(seconds=0.5)
        names = [f"{number}" for number in range(40)]
        runs = [await client.submit(placed_order, name, start_at=moment) for name in names]
        await asyncio.gather(*(run.result(LIMIT_S) for run in runs))
    assert sorted(begun) == sorted(names)
