"""`pyrula worker` and runs that block, kill and hang: who pays, who goes on, and what a restart does."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyrula.workflows import WorkflowClient, open_store
from tests.cli.sites import PATIENCE_S, Site

APP = '''
"""Workflows that do their worker harm, and one that does not."""
import asyncio
import ctypes
import re
import time
from pathlib import Path

from pyrula.workflows import step, workflow


@step
async def sleeps() -> None:
    Path("blocking").touch()
    time.sleep(1000)


@step
async def searches() -> None:
    Path("holding").touch()
    re.match(r"(a+)+$", "a" * 64 + "b")


@step
async def faults() -> None:
    ctypes.string_at(0)


@step
async def waits(gate: str) -> str:
    while not Path(gate).exists():
        await asyncio.sleep(0.01)
    return "done"


@workflow
async def blocks(ctx) -> None:
    await ctx.step(sleeps)


@workflow
async def holds(ctx) -> None:
    await ctx.step(searches)


@workflow
async def crashes(ctx) -> None:
    await ctx.step(faults)


@workflow
async def fine(ctx, gate: str) -> str:
    return await ctx.step(waits, gate)
'''
# a limit of three seconds, the least that there is
SHORT = ("--lock-ttl", "1", "--block-warn", "0.2", "--replace-after", "0.4", "--evacuate-after", "0.6")
SOON = ("--timer-poll-interval-s", "0.2")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    (tmp_path / "app.py").write_text(APP)
    yield made
    made.close()


def submitted(site: Site, workflow: str, **values: Any) -> str:
    return site.answer("submit", workflow, json.dumps(values))


def shown(site: Site, run_id: str) -> dict[str, Any]:
    document: dict[str, Any] = site.document("runs", "show", run_id)
    return document


def line_of(site: Site, code: str) -> str:
    """How evidence names the line of the app that has this code."""
    number = next(at for at, line in enumerate(APP.split("\n"), 1) if code in line)
    return f"{site.folder / 'app.py'}:{number} "


async def outcome(site: Site, *run_ids: str) -> list[Any]:
    """The results of runs, when they have ended."""
    async with WorkflowClient(open_store(site.store)) as client:
        handles = [client.handle("fine", run_id) for run_id in run_ids]
        return [await handle.result(timeout=PATIENCE_S) for handle in handles]


async def test_code_that_blocks_past_the_limit_is_charged_and_its_neighbours_go_on_elsewhere(site: Site) -> None:
    gate = str(site.folder / "gate")
    first = site.serving(*SHORT)
    neighbours = [submitted(site, "fine", gate=gate) for _ in range(3)]
    guilty = submitted(site, "blocks")
    assert "by run " + guilty in first.said("lane blocked")
    second = site.serving()
    handed_back = first.said("handed back its other 3 runs")
    assert all(run_id in handed_back for run_id in neighbours)
    Path(gate).touch()
    assert await outcome(site, *neighbours) == ["done"] * 3
    assert "has kept the lane for 3." in first.said("this worker cannot go on and ends")
    assert first.code() == 1
    for run_id in neighbours:
        told = shown(site, run_id)
        assert (told["charges"], told["marks"], told["suspect"]) == ([], [], False)
    (charge,) = shown(site, guilty)["charges"]
    assert (charge["cause"], charge["step"]) == ("loop_blocked", "sleeps")
    assert charge["for_ms"] >= 3_000
    assert charge["line"].startswith(line_of(site, "time.sleep(1000)"))
    assert "a suspect is to run alone here" in second.said(guilty)


async def test_a_run_that_blocks_again_and_again_is_out_and_its_worker_serves_on(site: Site) -> None:
    guilty = submitted(site, "blocks")
    for _ in range(3):
        assert site.serving(*SHORT, *SOON, PYRULA_POISON_MAX_RETRIES="2").code() == 1
    last = site.serving(*SOON)
    told = shown(site, guilty)
    assert (told["status"], len(told["charges"]), told["error"]["type"]) == ("quarantined", 3, "EventLoopBlocked")
    assert told["error"]["detail"]["evidence"]["line"].startswith(line_of(site, "time.sleep(1000)"))
    Path(site.folder / "gate").touch()
    assert await outcome(site, submitted(site, "fine", gate=str(site.folder / "gate"))) == ["done"]
    assert last.stop() == 0


def test_code_that_holds_the_gil_ends_its_worker_and_is_tried_alone(site: Site) -> None:
    guilty = submitted(site, "holds")
    assert site.serving(*SHORT).code() == 1
    second = site.serving(*SOON)
    assert guilty in second.said("a suspect is to run alone here")
    second.end()  # it may have been in the middle of a write, and would let nobody look
    told = shown(site, guilty)
    assert (told["charges"], told["suspect"]) == ([], True)
    (mark,) = told["marks"]
    assert (mark["cause"], mark["step"]) == ("killed", "searches")


async def test_a_run_that_crashes_its_workers_is_out_with_its_line_and_nobody_else_is(site: Site) -> None:
    gate = str(site.folder / "gate")
    neighbours = [submitted(site, "fine", gate=gate) for _ in range(2)]
    guilty = submitted(site, "crashes")
    assert site.start(*SOON).code() == -signal.SIGSEGV
    Path(gate).touch()  # its neighbours are finished before it is tried alone
    # that death has marked it; the first one alone charges it for both, each further one for itself
    for _ in range(3):
        assert site.start(*SOON).code() == -signal.SIGSEGV
    last = site.serving(*SOON)
    assert await outcome(site, *neighbours) == ["done"] * 2
    told = shown(site, guilty)
    assert (told["status"], told["error"]["type"]) == ("quarantined", "WorkerCrashed")
    assert told["error"]["detail"]["evidence"]["line"].startswith(line_of(site, "ctypes.string_at(0)").rstrip())
    for run_id in neighbours:
        told = shown(site, run_id)
        assert (told["charges"], told["suspect"]) == ([], False)
    assert last.stop() == 0
