"""Cancels as users meet them: compensation, steps that are told to stop, and code that does not end by itself."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pyrula.testing import Simulation
from pyrula.workflows import (
    RunCancelled,
    RunStatus,
    SyncWorkflowContext,
    UsageError,
    WorkflowContext,
    current_step,
    step,
    workflow,
)
from tests.workflows import serving
from tests.workflows.serving import LIMIT_S, has_come_to, served

_begun = threading.Event()
_saw_the_sign = threading.Event()


@pytest.fixture(params=["lane", "turn"], autouse=True)
def isolation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything here is true wherever turns run."""
    monkeypatch.setattr(serving, "ISOLATION", request.param)
    _begun.clear()
    _saw_the_sign.clear()


@step
def looks_at_the_sign() -> None:
    whose = current_step()
    _begun.set()
    while not whose.stop_requested:
        threading.Event().wait(0.001)
    _saw_the_sign.set()


@workflow
async def holds_a_thread(ctx: WorkflowContext) -> None:
    await ctx.step(looks_at_the_sign)


@workflow
def plainly_holds_a_thread(ctx: SyncWorkflowContext) -> None:
    ctx.step(looks_at_the_sign)


@workflow
async def holds_a_thread_too_long(ctx: WorkflowContext) -> None:
    await ctx.step(looks_at_the_sign.with_options(timeout=0.05))


async def seen(event: threading.Event) -> None:
    """Return when a thread has set this."""
    assert await asyncio.to_thread(event.wait, LIMIT_S)


@pytest.mark.parametrize("flow", [holds_a_thread, plainly_holds_a_thread])
async def test_a_step_in_a_thread_is_told_that_its_run_was_cancelled(flow: Any, tmp_path: Path) -> None:
    async with served(tmp_path, flow) as client:
        run = await client.submit(flow, None)
        await seen(_begun)
        await run.cancel()
        await seen(_saw_the_sign)
        await has_come_to(run, RunStatus.cancelled)


async def test_a_step_in_a_thread_is_told_that_it_is_too_late(tmp_path: Path) -> None:
    async with served(tmp_path, holds_a_thread_too_long) as client:
        await client.submit(holds_a_thread_too_long, None)
        await seen(_saw_the_sign)


@workflow(cancel_within=0.3)
async def never_unwinds(ctx: WorkflowContext) -> None:
    while True:
        try:
            await ctx.sleep(3600)
        except asyncio.CancelledError:
            continue


@workflow(cancel_within=0.3)
def plainly_never_unwinds(ctx: SyncWorkflowContext) -> None:
    while True:
        try:
            ctx.sleep(3600)
        except asyncio.CancelledError:
            continue


_let_go = threading.Event()


@workflow(cancel_within=0.3)
def plainly_hangs_in_its_own_code(ctx: SyncWorkflowContext) -> None:
    try:
        ctx.sleep(3600)
    except asyncio.CancelledError:
        _let_go.wait(LIMIT_S)


async def test_a_cancel_ends_the_run_though_its_thread_does_not_come_back(tmp_path: Path) -> None:
    _let_go.clear()
    async with served(tmp_path, plainly_hangs_in_its_own_code) as client:
        run = await client.submit(plainly_hangs_in_its_own_code, None)
        await has_come_to(run, RunStatus.waiting)
        await run.cancel()
        try:
            with pytest.raises(RunCancelled, match=r"had not unwound 0\.3 s after that"):
                await run.result(LIMIT_S / 2)
        finally:
            _let_go.set()


@pytest.mark.parametrize("flow", [never_unwinds, plainly_never_unwinds])
async def test_a_cancel_ends_the_run_though_its_code_does_not_want_to(flow: Any, tmp_path: Path) -> None:
    async with served(tmp_path, flow) as client:
        run = await client.submit(flow, None)
        await has_come_to(run, RunStatus.waiting)
        await run.cancel()
        with pytest.raises(RunCancelled, match=r"had not unwound 0\.3 s after that"):
            await run.result(LIMIT_S)


@workflow(cancel_within=60)
async def unwinds_for_a_while(ctx: WorkflowContext) -> None:
    try:
        await ctx.sleep(3600)
    finally:
        await ctx.sleep(30)


def test_a_run_that_was_paused_while_it_unwound_has_all_of_its_time_again() -> None:
    with Simulation() as simulation:
        run = simulation.start(unwinds_for_a_while)
        run.cancel()
        run.pause()
        simulation.advance(timedelta(hours=1))
        run.resume()
        assert (run.finish().status, run.error) == (RunStatus.cancelled, None)
        assert [entry["kind"] for entry in run.journal] == ["cancel_requested", "withdrawn", "resumed", "completed"]
        run.check_replay()


def test_the_time_to_unwind_is_some_time() -> None:
    with pytest.raises(UsageError, match=r"workflow 'hasty': cancel_within=0 must be a number of seconds above 0"):

        @workflow(cancel_within=0)
        async def hasty(ctx: WorkflowContext) -> None: ...
