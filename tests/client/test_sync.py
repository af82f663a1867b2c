"""The client for code without a loop: the same names and answers, from any thread."""

from __future__ import annotations

import asyncio
import inspect
import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pyrula.workflows import (
    IdempotencyConflict,
    RunCancelled,
    RunHandle,
    RunNotFound,
    RunStatus,
    UsageError,
    WorkflowClient,
    WorkflowContext,
    open_store,
    workflow,
)
from pyrula.workflows.sync import SyncRunHandle
from pyrula.workflows.sync import WorkflowClient as SyncClient
from tests.workflows.serving import LIMIT_S, url_in, worker_in


@workflow
async def adds(ctx: WorkflowContext, a: int, b: int) -> int:
    return a + b


def public(kind: type) -> dict[str, list[str]]:
    """The methods that a class offers, and their parameters."""
    methods = inspect.getmembers(kind, inspect.isfunction)
    return {name: list(inspect.signature(method).parameters) for name, method in methods if name[0] != "_"}


@pytest.mark.parametrize(("of", "like"), [(SyncClient, WorkflowClient), (SyncRunHandle, RunHandle)])
def test_the_names_are_those_of_the_asynchronous_client(of: type, like: type) -> None:
    ours, theirs = public(of), public(like)
    theirs["result"] = [name for name in theirs["result"] if name != "of"]
    assert ours == theirs


async def test_a_run_from_submit_to_result(tmp_path: Path) -> None:
    def use() -> Any:
        with SyncClient(open_store(url_in(tmp_path))) as client:
            run = client.submit(adds, {"a": 1, "b": 2})
            result = run.result(LIMIT_S)
            assert client.result(run.run_id) == result
            assert run.status() is client.status(run.run_id) is RunStatus.completed
            assert run.describe() == client.describe(run.run_id)
            assert [each.run_id for each in client.list(adds)] == [run.run_id]
            return result

    async with worker_in(tmp_path, adds):
        with ThreadPoolExecutor(1) as pool:
            assert await asyncio.get_running_loop().run_in_executor(pool, use) == 3


def test_acts_and_errors(sync_client: SyncClient) -> None:
    run = sync_client.submit("adds", {"a": 1}, idempotency_key="k")
    assert sync_client.submit("adds", {"a": 1}, idempotency_key="k") == run
    assert {run, sync_client.handle(adds, run.run_id)} == {run}
    assert run != run.run_id
    with pytest.raises(IdempotencyConflict):
        sync_client.submit("adds", {"a": 2}, idempotency_key="k")
    run.signal("go", {"a": 1}, message_id="m")
    sync_client.signal(run.run_id, "go")
    with pytest.raises(TimeoutError, match=r"has not ended within 0\.01 s"):
        run.result(timeout=0.01)
    run.cancel()
    sync_client.cancel(run.run_id)
    with pytest.raises(RunCancelled):
        run.result()
    with pytest.raises(RunNotFound):
        sync_client.requeue("nobody-knows-it")
    assert repr(run) == f"<run {run.run_id} of workflow 'adds'>"


def test_several_threads_use_one_client(sync_client: SyncClient) -> None:
    together = threading.Barrier(4, timeout=LIMIT_S)

    def submit(number: int) -> list[str]:
        together.wait()
        return [sync_client.submit("adds", number, idempotency_key=str(key)).run_id for key in range(number, 20, 4)]

    with ThreadPoolExecutor(4) as pool:
        ids = [run_id for found in pool.map(submit, range(4)) for run_id in found]
    assert len(set(ids)) == len(ids) == 20
    assert {run.run_id for run in sync_client.list()} == set(ids)


def test_nothing_is_started_before_the_first_call(url: str) -> None:
    before = threading.active_count()
    client = SyncClient(open_store(url))
    run = client.handle("adds", "r1")
    assert (run.workflow, run.run_id) == ("adds", "r1")
    assert threading.active_count() == before
    client.close()
    client.close()


def test_a_closed_client_says_so_and_leaves_nothing_behind(url: str) -> None:
    before = threading.active_count()
    client = SyncClient(open_store(url))
    run = client.submit("adds", 1)
    waiting = threading.Event()
    told: list[BaseException] = []

    def wait() -> None:
        waiting.set()
        try:
            run.result()
        except UsageError as error:
            told.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    assert waiting.wait(LIMIT_S)
    client.close()
    client.close()
    waiter.join(LIMIT_S)
    assert "this client has been closed" in str(told[0])
    with pytest.raises(UsageError, match="this client has been closed"):
        client.submit("adds", 1)
    assert threading.active_count() == before


def test_a_client_takes_a_store_and_not_its_address(url: str) -> None:
    with pytest.raises(UsageError, match=r"WorkflowClient\(open_store\('sqlite://"):
        SyncClient(url)  # type: ignore[arg-type]


def _use_in_child(client: SyncClient, answers: Any) -> None:
    try:
        client.list()
    except UsageError as error:
        answers.put(str(error))
    client.close()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_client_does_not_survive_a_fork_and_says_so(sync_client: SyncClient) -> None:
    sync_client.list()
    fork = multiprocessing.get_context("fork")
    answers = fork.SimpleQueue()
    child = fork.Process(target=_use_in_child, args=(sync_client, answers))
    child.start()
    child.join(LIMIT_S)
    assert child.exitcode == 0
    assert "was used before the process was forked" in answers.get()


def test_runs_are_operated_without_a_loop(sync_client: SyncClient) -> None:
    run = sync_client.submit("operated without a loop", {"a": 1})
    run.pause()
    assert run.status() is RunStatus.paused
    run.resume()
    assert run.status() is RunStatus.queued
    (chosen,) = sync_client.choose("pause", "operated without a loop")
    going = sync_client.bulk("pause", [chosen, "nobody"])
    assert [result.refusal is None for result in going] == [True, False]
    assert (going.done, going.refused, going.left) == (1, 1, 0)
    fork = sync_client.fork(run.run_id, version="2")
    told = fork.describe()
    assert (told["status"], told["version"], told["input"]) == ("queued", "2", {"a": 1})
    assert fork.events() == sync_client.events(fork.run_id) == ()
