"""What is held against a run, as a client sees it: charges, marks, suspects, and the error of a quarantined run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyrula.workflows import RunQuarantined, RunStatus, WorkflowClient, open_store
from pyrula_runtime.core.blame import Cause
from pyrula_runtime.stores.protocol import RunQuery
from tests.client.convicts import LINE, STACK, quarantined, suspected


async def test_a_mark_accuses_nobody_and_makes_a_suspect(url: str) -> None:
    store = open_store(url)
    async with WorkflowClient(store) as client:
        run = await client.submit("order")
        await suspected(store, "order")
        told = await run.describe()
        (listed,) = await client.list(suspects=True)
    assert (told["status"], told["suspect"], told["charges"], told["error"]) == ("queued", True, [], None)
    assert told["marks"] == [
        {
            "at_ms": 1_000,
            "cause": "killed",
            "worker": "w-0",
            "step": "polite",
            "op_id": "polite#1",
            "executing": True,
            "in_cell": False,
        }
    ]
    assert (listed.run_id, listed.suspect, listed.charges) == (run.run_id, True, ())


async def test_charges_tell_the_deaths_they_are_for(url: str) -> None:
    store = open_store(url)
    async with WorkflowClient(store) as client:
        run = await client.submit("order")
        await quarantined(store, "order")
        told = await run.describe()
        (listed,) = await client.list()
    first, *_, last = told["charges"]
    assert len(told["charges"]) == 4
    assert {name: value for name, value in last.items() if name != "stack"} == {
        "at_ms": 1_000,
        "cause": "loop_blocked",
        "worker": "w-0",
        "pid": 4711,
        "exit": "was killed by SIGKILL",
        "step": "polite",
        "op_id": "polite#1",
        "line": LINE,
        "for_ms": 94_000,
        "rss_bytes": 52_000_000,
        "limit_bytes": 0,
    }
    assert (first["stack"], last["stack"]) == ("", STACK)
    assert (told["suspect"], told["marks"]) == (False, [])
    assert (listed.suspect, listed.charges) == (False, (1_000,) * 4)
    assert json.loads(json.dumps(told)) == told


@pytest.mark.parametrize(
    ("cause", "name"),
    [
        (Cause.loop_blocked, "EventLoopBlocked"),
        (Cause.crashed, "WorkerCrashed"),
        (Cause.exited, "WorkerExited"),
        (Cause.out_of_memory, "OutOfMemory"),
        (Cause.killed, "WorkerKilled"),
    ],
)
async def test_a_quarantined_run_raises_one_sentence(url: str, cause: Cause, name: str) -> None:
    store = open_store(url)
    async with WorkflowClient(store) as client:
        run = await client.submit("order")
        await quarantined(store, "order", cause)
        with pytest.raises(RunQuarantined) as ended:
            await run.result()
    sentence = str(ended.value)
    assert sentence.startswith(f"run {run.run_id} was quarantined: {name}: its code ")
    assert f"in step 'polite' at {LINE}" in sentence
    assert "\n" not in sentence
    error = ended.value.error
    assert error is not None
    assert (error.type, error.detail["cause"], error.detail["reason"]) == (name, cause.value, "poison")
    told = error.detail["evidence"]
    assert isinstance(told, dict)
    assert (told["step"], told["line"], told["duration_ms"], told["worker"]) == ("polite", LINE, 94_000, "w-0")
    assert (told["exit"], told["stack"]) == ("was killed by SIGKILL", STACK)


async def test_a_requeue_forgives_and_anybody_takes_it(url: str) -> None:
    store = open_store(url)
    async with WorkflowClient(store) as client:
        run = await client.submit("order")
        await quarantined(store, "order")
        await client.requeue(run.run_id)
        told = await run.describe()
        assert (told["status"], told["charges"], told["marks"], told["suspect"]) == ("queued", [], [], False)
        assert (told["error"], told["finished_ms"]) == (None, None)
        assert await client.list(suspects=True) == ()
        await suspected(store, "order")  # claimed by a worker that asks for no suspects


async def test_suspects_are_found_among_many(url: str) -> None:
    store = open_store(url)
    async with WorkflowClient(store) as client:
        old = [(await client.submit("order", run_id=f"r-{number}")).run_id for number in range(3)]
        for _ in old[:2]:
            await suspected(store, "order")
        for number in range(120):
            await client.submit("mail", number)
        assert [each.run_id for each in await client.list(suspects=True)] == [old[1], old[0]]
        assert [each.run_id for each in await client.list(suspects=True, limit=1)] == [old[1]]
        assert await client.list("mail", suspects=True) == ()
        assert await client.list(status=[RunStatus.failed, RunStatus.running], suspects=True) == ()
        assert len(await client.list(status="queued", suspects=True)) == 2


async def test_where_none_wait_the_queue_is_not_looked_through(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(url)
    async with WorkflowClient(store) as client:
        await client.submit("order")
        asked: list[frozenset[RunStatus] | None] = []
        find = store.find

        def told(query: RunQuery) -> Any:
            asked.append(query.statuses)
            return find(query)

        monkeypatch.setattr(store, "find", told)
        assert await client.list(suspects=True) == ()
        assert await client.list(status="queued", suspects=True) == ()
    assert asked == [frozenset({RunStatus.running, RunStatus.waiting, RunStatus.paused})]
