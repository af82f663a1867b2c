"""Time in a simulation: it stands still while anything can happen, and then jumps to what is due, never past it."""

from __future__ import annotations

import asyncio
import sys
import threading
from datetime import UTC, datetime, timedelta
from socketserver import StreamRequestHandler, ThreadingTCPServer

import pytest

from pyrula.testing import Simulation, SimulationStuck
from pyrula.workflows import (
    Retry,
    RunFailed,
    RunStatus,
    StepTimeout,
    SyncWorkflowContext,
    UsageError,
    WorkflowContext,
    current_step,
    step,
    workflow,
)

START = datetime(2024, 1, 1, tzinfo=UTC)
MONTH = timedelta(days=30)
gate = threading.Event()


@step(retry=Retry(attempts=3, initial_s=3600, factor=2, max_s=86_400))
def third_time(word: str) -> str:
    if current_step().attempt < 3:
        raise ConnectionError("not yet")
    return word


@step
async def naps(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


@step(timeout=60)
async def naps_too_long() -> None:
    await asyncio.sleep(3600)


@step(timeout=0.02)
def hangs_in_thread() -> None:
    gate.wait()


@step
async def hangs_for_ever() -> None:
    await asyncio.Event().wait()


@step(timeout=60)
async def asks_a_thread() -> str:
    async with asyncio.timeout(30):
        return await asyncio.to_thread(lambda: "from a thread")


@workflow
async def simulated_month(ctx: WorkflowContext) -> list[str]:
    times = [ctx.now()]
    await ctx.sleep(MONTH)
    times.append(ctx.now())
    await ctx.step(third_time, "word")
    times.append(ctx.now())
    await ctx.step(naps, 7200.5)
    return [f"{each:%m-%d %H:%M:%S}" for each in [*times, ctx.now()]]


@workflow
def simulated_month_in_thread(ctx: SyncWorkflowContext) -> list[str]:
    times = [ctx.now()]
    ctx.sleep(MONTH)
    times.append(ctx.now())
    ctx.step(third_time, "word")
    times.append(ctx.now())
    ctx.step(naps, 7200.5)
    return [f"{each:%m-%d %H:%M:%S}" for each in [*times, ctx.now()]]


@workflow
async def simulated_step_of(ctx: WorkflowContext, name: str) -> str | None:
    functions = {each.name: each for each in (naps_too_long, hangs_in_thread, hangs_for_ever, asks_a_thread)}
    try:
        return await ctx.step(functions[name])
    except StepTimeout:
        return f"timed out at {ctx.now():%H:%M:%S}"


@workflow(timeout=86_400)
async def simulated_too_long(ctx: WorkflowContext) -> None:
    await ctx.sleep(MONTH)


@workflow
async def simulated_for_ever(ctx: WorkflowContext) -> None:
    while True:
        await ctx.step(naps, 0.0)
        await ctx.sleep(60)


class Echo(StreamRequestHandler):
    """Says again what it hears."""

    def handle(self) -> None:
        self.wfile.write(self.rfile.readline())


@step
async def ask_others(port: int) -> str:
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"hello\n")
        answer = await reader.readline()
        writer.close()
        await writer.wait_closed()
        return answer.decode().strip()


@step
async def ask_a_process() -> str:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "print(3 + 4)", stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    return said.decode().strip()


@workflow
async def simulated_call(ctx: WorkflowContext, port: int) -> str:
    return await ctx.step(ask_others, port)


@workflow
async def simulated_process(ctx: WorkflowContext) -> str:
    return await ctx.step(ask_a_process)


@workflow
async def simulated_race(ctx: WorkflowContext) -> list[float]:
    order: list[float] = []

    async def nap(seconds: float) -> None:
        await ctx.sleep(seconds)
        order.append(seconds)

    await ctx.gather(*map(nap, (300.0, 0.05, 100_000.0, 60.0)))
    return order


@pytest.mark.parametrize("flow", [simulated_month, simulated_month_in_thread])
def test_a_run_that_takes_a_month_ends_at_once_with_every_thing_at_its_time(flow: object) -> None:
    with Simulation(start=START) as simulation:
        run = simulation.run(flow)  # type: ignore[call-overload]
        assert run.result() == ["01-01 00:00:00", "01-31 00:00:00", "01-31 03:00:00", "01-31 05:00:00"]
        assert simulation.now == START + MONTH + timedelta(hours=5, seconds=0.5)
        assert run.steps == ["third_time"] * 3 + ["naps"]


def test_the_clock_stands_still_until_something_is_waited_for() -> None:
    with Simulation(start=START) as simulation:
        run = simulation.start(simulated_month)
        assert (run.status, simulation.now) == (RunStatus.waiting, START)
        simulation.advance(MONTH - timedelta(milliseconds=1))
        assert (run.status, run.steps) == (RunStatus.waiting, [])
        simulation.advance(0.001)
        assert (run.status, run.steps) == (RunStatus.waiting, ["third_time"])
        simulation.advance(3600)
        assert run.steps == ["third_time"] * 2
        assert simulation.now == START + MONTH + timedelta(hours=1)
        run.result()


def test_waits_end_in_order_of_their_times() -> None:
    with Simulation() as simulation:
        assert simulation.run(simulated_race).result() == [0.05, 60.0, 300.0, 100_000.0]


def test_runs_do_not_wait_for_each_other() -> None:
    with Simulation(start=START) as simulation:
        runs = [simulation.start(simulated_month) for _ in range(20)]
        for run in runs:
            run.finish()
        assert simulation.now == START + MONTH + timedelta(hours=5, seconds=0.5)


def test_the_timeout_of_a_step_passes_without_being_waited_for() -> None:
    with Simulation() as simulation:
        assert simulation.run(simulated_step_of, "naps_too_long").result() == "timed out at 00:01:00"


def test_a_thread_that_hangs_is_given_its_time_for_real() -> None:
    gate.clear()
    try:
        with Simulation() as simulation:
            assert simulation.run(simulated_step_of, "hangs_in_thread").result() == "timed out at 00:00:00"
            assert simulation.now == START + timedelta(milliseconds=20)
    finally:
        gate.set()


def test_no_time_passes_while_a_step_waits_for_a_thread_of_its_own() -> None:
    with Simulation() as simulation:
        assert simulation.run(simulated_step_of, "asks_a_thread").result() == "from a thread"
        assert simulation.now == START


def test_the_timeout_of_a_workflow_passes_too() -> None:
    with Simulation() as simulation:
        run = simulation.run(simulated_too_long)
        assert simulation.now == START + timedelta(days=1)
        with pytest.raises(RunFailed, match="RunTimeout"):
            run.result()


def test_code_that_never_ends_is_named_instead_of_waited_for() -> None:
    with Simulation(patience=1.0) as simulation, pytest.raises(SimulationStuck, match=r"step 'hangs_for_ever' .* is"):
        simulation.run(simulated_step_of, "hangs_for_ever")


def test_what_never_ends_is_told_instead_of_waited_for() -> None:
    with Simulation(patience=1.0) as simulation:
        run = simulation.start(simulated_for_ever)
        with pytest.raises(SimulationStuck, match=r"It goes on and on: after 1 s of real time it is 20\d\d-"):
            run.result()
        assert run.status is RunStatus.waiting
    with Simulation() as simulation:
        run = simulation.start(simulated_for_ever)
        simulation.advance(3600)
        assert run.steps == ["naps"] * 61


def test_no_time_passes_while_a_step_waits_for_an_answer_of_others() -> None:
    with ThreadingTCPServer(("127.0.0.1", 0), Echo) as server, Simulation() as simulation:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        try:
            run = simulation.run(simulated_call, server.server_address[1])
        finally:
            server.shutdown()
        assert (run.result(), simulation.now) == ("hello", START)


def test_no_time_passes_while_a_step_waits_for_a_process() -> None:
    with Simulation() as simulation:
        assert simulation.run(simulated_process).result() == "7"
        assert simulation.now == START


@pytest.mark.parametrize("span", [-1, float("inf"), timedelta(seconds=-1)])
def test_time_goes_forward_only(span: float) -> None:
    with Simulation() as simulation, pytest.raises(UsageError, match="cannot be advanced"):
        simulation.advance(span)


def test_a_start_has_a_time_zone() -> None:
    with pytest.raises(UsageError, match="time zone"):
        Simulation(start=datetime(2024, 1, 1))
