"""Looking at runs, waiting for them, cancelling and requeueing them: through a client, with a real worker."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from pyrula.workflows import (
    IllegalTransition,
    InputError,
    RunCancelled,
    RunEnded,
    RunFailed,
    RunNotFound,
    RunQuarantined,
    RunStatus,
    StepFailed,
    UsageError,
    WorkflowClient,
    WorkflowContext,
    open_store,
    step,
    workflow,
)
from pyrula_runtime.core.blame import Cause, Charge, Evidence, Record
from pyrula_runtime.core.errors import ErrorRecord
from pyrula_runtime.core.status import TERMINAL
from pyrula_runtime.engine.codec import dossier_of, dump_error
from pyrula_runtime.stores.protocol import ClaimRequest, Listening, Release, Serves, Store
from tests.workflows.serving import LIMIT_S, served, url_in, worker_in

NOBODY = "nobody-knows-it"


class Gate:
    """Lets steps through when a test opens it, and tells that one waits."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._is_open = False
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        self._mutex = threading.Lock()

    def open(self) -> None:
        """From any thread."""
        with self._mutex:
            self._is_open = True
            for loop, event in self._waiting:
                loop.call_soon_threadsafe(event.set)
            self._waiting.clear()

    def close(self) -> None:
        self._is_open = False
        self.reached.clear()
        self._waiting.clear()

    async def passed(self) -> None:
        """On a step's loop."""
        event = asyncio.Event()
        with self._mutex:
            if self._is_open:
                return
            self._waiting.append((asyncio.get_running_loop(), event))
        self.reached.set()
        await event.wait()


gate = Gate()


async def wait_at_gate() -> str:
    await gate.passed()
    return "through"


async def compensate() -> None: ...


@workflow
async def barred(ctx: WorkflowContext) -> str:
    try:
        return await ctx.step(wait_at_gate)
    except asyncio.CancelledError:
        await ctx.step(compensate)
        raise


is_mended = threading.Event()


def mendable(name: str) -> str:
    if name == "second" and not is_mended.is_set():
        raise ValueError("not mended yet")
    return name


@workflow
async def mended(ctx: WorkflowContext) -> list[str]:
    return [await ctx.step(step(name=name)(mendable), name) for name in ("first", "second", "third")]


@pytest.fixture(autouse=True)
def _closed_gate() -> None:
    gate.close()
    is_mended.clear()


async def reached() -> None:
    assert await asyncio.to_thread(gate.reached.wait, LIMIT_S)


async def test_a_result_is_waited_for_without_looking_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(url_in(tmp_path))
    looks: list[str] = []
    read = store.read

    def counted(run_id: str) -> Any:
        looks.append(run_id)
        return read(run_id)

    monkeypatch.setattr(store, "read", counted)
    async with WorkflowClient(store) as client, worker_in(tmp_path, barred):
        run = await client.submit(barred)
        waiting = asyncio.create_task(run.result())
        await reached()
        with pytest.raises(TimeoutError, match=f"run {run.run_id} has not ended within 0.05 s"):
            await run.result(timeout=0.05)
        gate.open()
        assert await asyncio.wait_for(waiting, LIMIT_S) == "through"
        assert await run.result() == "through"
        assert await run.result(timeout=0) == "through"
    assert len(looks) < 20


async def test_every_waiter_is_told(tmp_path: Path) -> None:
    gate.open()
    async with served(tmp_path, barred) as client:
        runs = [await client.submit(barred) for _ in range(20)]
        async with asyncio.timeout(LIMIT_S):
            assert await asyncio.gather(*(run.result() for run in runs)) == ["through"] * 20


async def test_a_result_of_a_name_that_is_known_here_is_typed(tmp_path: Path) -> None:
    @workflow
    async def tells_types(ctx: WorkflowContext) -> set[int]:
        return {1, 2}

    async with served(tmp_path, tells_types) as client:
        run = await client.submit("tells_types")
        assert await run.result(LIMIT_S) == {1, 2}
        assert await client.result(run.run_id) == {1, 2}


async def test_who_waits_when_the_client_is_closed_is_told(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(url)
    listened = asyncio.Event()
    listen = store.listen

    def listen_and_tell(*args: Any) -> Listening:
        listened.set()
        return listen(*args)

    monkeypatch.setattr(store, "listen", listen_and_tell)
    client = WorkflowClient(store)
    run = await client.submit("barred")
    waiting = asyncio.create_task(run.result())
    await listened.wait()
    await client.close()
    with pytest.raises(UsageError, match="this client has been closed"):
        await asyncio.wait_for(waiting, LIMIT_S)
    with pytest.raises(UsageError, match="this client has been closed"):
        await client.submit("barred")
    await client.close()


async def test_a_run_that_is_not_there(client: WorkflowClient) -> None:
    run = client.handle("barred", NOBODY)
    for act in (run.status, run.result, run.cancel, run.describe):
        with pytest.raises(RunNotFound, match=NOBODY):
            await act()
    with pytest.raises(RunNotFound):
        await run.signal("s")
    with pytest.raises(RunNotFound):
        await client.requeue(NOBODY)
    with pytest.raises(UsageError, match="must be 1 to 128"):
        client.handle("barred", "no id")
    with pytest.raises(UsageError, match="is no workflow"):
        client.handle(len, NOBODY)  # type: ignore[call-overload]
    assert repr(run) == f"<run {NOBODY} of workflow 'barred'>"


async def test_signals_are_kept_once_per_id(client: WorkflowClient, url: str) -> None:
    run = await client.submit("barred")
    await run.signal("go", {"a": 1}, message_id="m")
    await run.signal("go", {"a": 1}, message_id="m")
    await run.signal("go")
    store = open_store(url)
    await store.open()
    record = await store.read(run.run_id)
    await store.close()
    assert record is not None
    assert record.inbox_len == 2
    await run.cancel()
    with pytest.raises(IllegalTransition, match="signal 'late' was not kept"):
        await run.signal("late")
    with pytest.raises(InputError, match="the payload of signal 'bad'"):
        await run.signal("bad", object())


# cancelling


async def test_a_run_that_nobody_took_is_cancelled_at_once(client: WorkflowClient) -> None:
    run = await client.submit("barred")
    waiting = asyncio.create_task(run.result())
    await run.cancel()
    await run.cancel()
    with pytest.raises(RunCancelled, match=f"run {run.run_id} was cancelled"):
        await asyncio.wait_for(waiting, LIMIT_S)
    assert await run.status() is RunStatus.cancelled


async def test_a_running_run_unwinds_with_its_compensation(tmp_path: Path) -> None:
    async with served(tmp_path, barred) as client:
        run = await client.submit(barred)
        await reached()
        await run.cancel()
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result(LIMIT_S)
        told = await run.describe()
    assert [(entry["kind"], entry.get("name")) for entry in told["journal"]] == [
        ("cancel_requested", None),
        ("withdrawn", "wait_at_gate"),
        ("completed", "compensate"),
    ]


async def test_a_run_that_ended_cannot_be_cancelled(tmp_path: Path) -> None:
    gate.open()
    async with served(tmp_path, barred) as client:
        run = await client.submit(barred)
        await run.result(LIMIT_S)
        with pytest.raises(IllegalTransition, match=f"run {run.run_id} has completed already"):
            await run.cancel()
        with pytest.raises(IllegalTransition, match=f"run {run.run_id} is completed; only a run that failed"):
            await client.requeue(run.run_id)


# requeueing


async def test_a_failed_run_goes_on_from_the_step_that_failed(tmp_path: Path) -> None:
    async with served(tmp_path, mended) as client:
        run = await client.submit(mended)
        with pytest.raises(RunFailed, match="not mended yet"):
            await run.result(LIMIT_S)
        is_mended.set()
        await client.requeue(run.run_id)
        assert await run.result(LIMIT_S) == ["first", "second", "third"]
        told = await run.describe()
    journal = [(entry["kind"], entry.get("name"), entry.get("voided", False)) for entry in told["journal"]]
    assert journal == [
        ("completed", "first", False),
        ("failed", "second", True),
        ("requeued", None, False),
        ("completed", "second", False),
        ("completed", "third", False),
    ]
    assert told["journal"][2]["void_from"] == 1
    assert told["journal"][1]["error"]["type"] == "ValueError"
    assert (told["error"], told["charges"], told["marks"]) == (None, [], [])
    assert json.loads(json.dumps(told)) == told


class OrderFailed(Exception):
    """What a workflow makes of a failed step."""


@workflow
async def reworded(ctx: WorkflowContext) -> str:
    try:
        return await ctx.step(mendable, "second")
    except StepFailed as failed:
        raise OrderFailed("the order failed") from failed


async def test_a_failure_in_the_workflows_own_words_is_requeued_from_its_cause(tmp_path: Path) -> None:
    async with served(tmp_path, reworded) as client:
        run = await client.submit(reworded)
        with pytest.raises(RunFailed, match="OrderFailed: the order failed") as ended:
            await run.result(LIMIT_S)
        assert ended.value.error is not None
        assert ended.value.error.detail["op_id"] == "mendable#1"
        assert "raise OrderFailed" in ended.value.error.traceback
        is_mended.set()
        await client.requeue(run.run_id)
        assert await run.result(LIMIT_S) == "second"


async def claimed(store: Store, workflow: str) -> Any:
    """One run, taken as a worker would."""
    request = ClaimRequest(
        incarnation="i",
        serves=(Serves(workflow=workflow, version=None),),
        limit=1,
        lock_ttl_ms=30_000,
        to_status=RunStatus.running,
    )
    (claim,) = await store.claim(request)
    return claim


@pytest.mark.parametrize("status", [RunStatus.quarantined, RunStatus.paused])
async def test_quarantined_and_paused_runs_start_afresh(url: str, status: RunStatus) -> None:
    store = open_store(url)
    async with WorkflowClient(store) as client:
        run = await client.submit("barred")
        claim = await claimed(store, "barred")
        error = dump_error(ErrorRecord(type="EventLoopBlocked", message="blocked"))
        evidence = Evidence(at_ms=1, cause=Cause.loop_blocked, worker="w")
        charges = (Charge(at_ms=1, evidence=evidence), Charge(at_ms=2, evidence=evidence))
        dossier = dossier_of(Record(charges=charges))
        await store.release(Release(token=claim.token, status=status, ready=False, error=error, dossier=dossier))
        told = await run.describe()
        assert (told["status"], told["error"]["type"]) == (status.value, "EventLoopBlocked")
        assert [each["at_ms"] for each in told["charges"]] == [1, 2]
        if status in TERMINAL:
            with pytest.raises(RunQuarantined, match="EventLoopBlocked: blocked") as ended:
                await run.result()
            assert isinstance(ended.value, RunEnded)
        await client.requeue(run.run_id)
        told = await run.describe()
        assert (told["status"], told["charges"], told["error"], told["finished_ms"]) == ("queued", [], None, None)
        assert (await claimed(store, "barred")).token.fence == claim.token.fence + 1


async def test_a_paused_run_is_cancelled_at_once(url: str) -> None:
    store = open_store(url)
    async with WorkflowClient(store) as client:
        run = await client.submit("barred")
        claim = await claimed(store, "barred")
        await store.release(Release(token=claim.token, status=RunStatus.paused, ready=False))
        await run.cancel()
        assert await run.status() is RunStatus.cancelled


async def test_an_act_is_decided_anew_if_the_run_changed_meanwhile(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(url)
    async with WorkflowClient(store) as client:
        run = await client.submit("barred")
        amend = store.amend
        tried = 0

        async def amend_late(amendment: Any) -> bool:
            nonlocal tried
            tried += 1
            if tried == 1:
                await claimed(store, "barred")
            return await amend(amendment)

        monkeypatch.setattr(store, "amend", amend_late)
        await run.cancel()
        told = await run.describe()
    assert (tried, told["status"], told["cancel_requested"]) == (2, "running", True)
