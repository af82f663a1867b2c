"""The lane with real threads and a real store: sync and async code, retries, limits of patience, broken user code."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from pyrula_runtime.core.entries import AttemptFailed, Completed, Json, OpKind
from pyrula_runtime.core.errors import StepFailed, StepTimeout
from pyrula_runtime.core.retry import Retry
from pyrula_runtime.core.status import DELIVERY, RunStatus
from pyrula_runtime.engine.codec import load_entry, load_error
from pyrula_runtime.engine.current import current
from pyrula_runtime.engine.program import Operations, Program, StepCall, SyncOperations, WaitCall
from pyrula_runtime.stores.protocol import Commit, Committed, Message
from tests.engine.lanes import CAPACITY, LIMIT_S, lane_at_work, same, step
from tests.store.samples import until


def one_step(call: StepCall, name: str = "flow") -> Program:
    """A workflow of one step."""

    def start(operations: Operations, _input: Json) -> Coroutine[Any, Any, Any]:
        async def body() -> Any:
            return await operations.ask(call)

        return body()

    return Program(name=name, version=None, start=start, to_json=same)


async def test_an_async_step_knows_whose_it_is(tmp_path: Path) -> None:
    async def ask() -> str:
        whose = current.get()
        assert whose is not None
        return whose.idempotency_key

    async with lane_at_work(tmp_path, [one_step(step(ask))]) as at_work:
        record = await at_work.run("flow")
        assert record.result == f'"{record.run_id}:ask#1"'.encode()


async def test_a_plain_step_runs_in_a_thread_of_its_own(tmp_path: Path) -> None:
    def name() -> str:
        return threading.current_thread().name

    async with lane_at_work(tmp_path, [one_step(step(name))]) as at_work:
        assert b"pyrula-step" in ((await at_work.run("flow")).result or b"")


async def test_a_plain_workflow_runs_steps_one_by_one_and_side_by_side(tmp_path: Path) -> None:
    meeting = threading.Barrier(3, timeout=LIMIT_S)

    def first() -> int:
        return 1

    def meet() -> int:
        meeting.wait()
        return 2

    def body(operations: SyncOperations, _input: Json) -> Any:
        return operations.ask([step(first)]) + operations.ask([step(meet)] * 3)

    program = Program(name="flow", version=None, run=body, to_json=same)
    async with lane_at_work(tmp_path, [program]) as at_work:
        assert (await at_work.run("flow")).result == b"[1,2,2,2]"


async def test_a_plain_workflow_gets_the_step_failure(tmp_path: Path) -> None:
    def boom() -> None:
        raise ValueError("no")

    def body(operations: SyncOperations, _input: Json) -> Any:
        try:
            operations.ask([step(boom)])
        except StepFailed as failed:
            return failed.error.type

    program = Program(name="flow", version=None, run=body, to_json=same)
    async with lane_at_work(tmp_path, [program]) as at_work:
        assert (await at_work.run("flow")).result == b'"ValueError"'


async def test_retries_are_journaled_until_one_succeeds(tmp_path: Path) -> None:
    tries = []

    async def flaky() -> int:
        tries.append(1)
        if len(tries) < 3:
            raise ValueError("not yet")
        return len(tries)

    call = step(flaky, retry=Retry(attempts=5, initial_s=0, jitter=0))
    async with lane_at_work(tmp_path, [one_step(call)]) as at_work:
        record = await at_work.run("flow")
        journal = [load_entry(raw) for raw in await at_work.store.read_journal(record.run_id, 0)]
    assert [type(entry) for entry in journal] == [AttemptFailed, AttemptFailed, Completed]
    assert record.result == b"3"


async def test_errors_that_are_never_retried_end_the_step(tmp_path: Path) -> None:
    tries = []

    async def broken() -> None:
        tries.append(1)
        raise ValueError("for good")

    call = step(broken, retry=Retry(attempts=5, initial_s=0, never_for=(ValueError,)))
    async with lane_at_work(tmp_path, [one_step(call)]) as at_work:
        assert (await at_work.run("flow")).status is RunStatus.failed
    assert len(tries) == 1


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_a_step_over_its_time_is_given_up_even_if_it_does_not_react(tmp_path: Path, kind: str) -> None:
    let_go = threading.Event()

    async def stubborn() -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return

    def hung() -> None:
        let_go.wait(LIMIT_S)

    call = step(stubborn if kind == "async" else hung, timeout_s=0.01)
    async with lane_at_work(tmp_path, [one_step(call)]) as at_work:
        record = await at_work.run("flow")
        let_go.set()
    assert load_error(record.error or b"").detail["error_type"] == StepTimeout.__name__


@pytest.mark.parametrize("exit_", [SystemExit(3), KeyboardInterrupt()], ids=["SystemExit", "KeyboardInterrupt"])
async def test_a_step_that_exits_fails_alone(tmp_path: Path, exit_: BaseException) -> None:
    async def leave() -> None:
        raise exit_

    async def fine() -> int:
        return 1

    async with lane_at_work(tmp_path, [one_step(step(leave)), one_step(step(fine), "other")]) as at_work:
        assert (await at_work.run("flow")).status is RunStatus.failed
        assert (await at_work.run("other")).result == b"1"


async def test_a_step_that_stops_the_loop_stops_nothing_and_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def stop() -> int:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0)
        return 1

    async with lane_at_work(tmp_path, [one_step(step(stop))]) as at_work:
        record = await at_work.run("flow")
        assert record.result == b"1"
        assert (await at_work.run("flow")).result == b"1", "the lane goes on"
        assert at_work.failures.empty()
    assert f"run {record.run_id} stopped the event loop of its lane" in caplog.text


async def test_a_journal_of_a_newer_version_pauses_the_run(tmp_path: Path) -> None:
    async def fine() -> int:
        return 1

    async with lane_at_work(tmp_path, [one_step(step(fine))]) as at_work:
        run_id = await at_work.submit("flow")
        (claim,) = await at_work.store.claim(at_work.setup.claim_request(1))
        at_work.setup.slots.take_all()
        at_work.lane.post(at_work.lane._begin, claim, [b'{"k":"zz","at":1}'])
        async with asyncio.timeout(LIMIT_S):
            while (record := await at_work.store.read(run_id)) and record.status is RunStatus.running:
                await asyncio.to_thread(time.monotonic)
    assert record is not None
    assert record.status is RunStatus.paused


async def test_a_message_that_cannot_be_read_pauses_the_run_and_says_so(tmp_path: Path) -> None:
    begun = threading.Event()

    async def hold() -> None:
        begun.set()
        await asyncio.get_running_loop().create_future()

    def start(operations: Operations, _input: Json) -> Coroutine[Any, Any, Any]:
        signal = WaitCall(kind=OpKind.signal, name="go", hears="go")

        async def body() -> None:
            await asyncio.gather(operations.ask(step(hold)), operations.ask(signal))

        return body()

    program = Program(name="flow", version=None, start=start, to_json=same)
    async with lane_at_work(tmp_path, [program]) as at_work:
        run_id = await at_work.submit("flow")
        await at_work.claim()
        assert await asyncio.to_thread(begun.wait, LIMIT_S)
        await at_work.store.deliver(Message(run_id=run_id, message_id="m", name="go", body=b"\x01sealed"), DELIVERY)
        at_work.lanes.tell({run_id: 1})

        async def is_paused() -> bool:
            record = await at_work.store.read(run_id)
            return record is not None and record.status is RunStatus.paused

        await asyncio.wait_for(until(is_paused), LIMIT_S)
        record = await at_work.store.read(run_id)
        assert record is not None
        assert load_error(record.error or b"").message.startswith(
            "its payloads cannot be read: it was encoded by a codec"
        )


async def test_a_large_journal_is_read_in_pages(tmp_path: Path) -> None:
    async def large() -> str:
        return "x" * 400_000

    def start(operations: Operations, _input: Json) -> Coroutine[Any, Any, Any]:
        async def body() -> int:
            total = 0
            for _ in range(5):
                total += len(await operations.ask(step(large)))
            await operations.ask(step(wait))
            return total

        return body()

    reached = threading.Event()
    gate = threading.Event()

    def wait() -> None:
        reached.set()
        gate.wait(LIMIT_S)

    program = Program(name="flow", version=None, start=start, to_json=same)
    async with lane_at_work(tmp_path, [program]) as at_work:
        run_id = await at_work.submit("flow")
        await at_work.claim()
        assert await asyncio.to_thread(reached.wait, LIMIT_S)
        work = asyncio.run_coroutine_threadsafe(at_work.lane.suspend_all(0), at_work.lane.loop)
        assert await asyncio.wrap_future(work) == 1
        gate.set()
        await at_work.claim()
        assert (await at_work.until_ended(run_id)).result == b"2000000"


async def test_suspending_waits_for_threads_before_the_run_is_handed_back(tmp_path: Path) -> None:
    reached, gate = threading.Event(), threading.Event()

    def hold() -> None:
        reached.set()
        gate.wait(LIMIT_S)

    async with lane_at_work(tmp_path, [one_step(step(hold))]) as at_work:
        run_id = await at_work.submit("flow")
        await at_work.claim()
        assert await asyncio.to_thread(reached.wait, LIMIT_S)
        work = asyncio.run_coroutine_threadsafe(at_work.lane.suspend_all(LIMIT_S), at_work.lane.loop)
        # whatever the lane does after this, it has begun to suspend before
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asyncio.sleep(0), at_work.lane.loop))
        record = await at_work.store.read(run_id)
        assert record is not None
        assert record.status is RunStatus.running
        gate.set()
        assert await asyncio.wrap_future(work) == 1
        record = await at_work.store.read(run_id)
        assert record is not None
        assert record.status is RunStatus.queued
        assert at_work.setup.slots.in_use == 0


async def test_a_run_that_has_just_ended_has_not_lost_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fine() -> int:
        return 1

    async with lane_at_work(tmp_path, [one_step(step(fine))]) as at_work:
        lane, commit = at_work.lane, at_work.store.commit

        def commit_and_renew(asked: Commit) -> asyncio.Future[Committed]:
            """A renewal finds that the token is dead before the lane has heard why."""
            if asked.ending is not None:
                lane.loop.call_soon(lane.drop, [asked.token])
            return commit(asked)

        monkeypatch.setattr(at_work.store, "commit", commit_and_renew)
        assert (await at_work.run("flow")).status is RunStatus.completed
        await asyncio.to_thread(at_work.freed.get, timeout=LIMIT_S)
        assert lane.turns_done == 1
    assert "lock lost" not in caplog.text


async def test_a_finished_run_hands_its_slot_to_the_next(tmp_path: Path) -> None:
    async def fine() -> int:
        return 1

    async with lane_at_work(tmp_path, [one_step(step(fine))]) as at_work:
        runs = [await at_work.submit("flow") for _ in range(CAPACITY * 3)]
        await at_work.claim()
        for run_id in runs:
            assert (await at_work.until_ended(run_id)).status is RunStatus.completed
