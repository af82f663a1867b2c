"""One act on many runs: which are chosen, at what speed, and what an interrupt leaves."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from pyrula.workflows import IllegalTransition, RunNotFound, RunStatus, UsageError, WorkflowClient, open_store
from pyrula.workflows.sync import WorkflowClient as SyncClient
from pyrula_runtime.client.bulk import Bulk, Deed
from pyrula_runtime.client.door import Door
from pyrula_runtime.core.acts import Act
from pyrula_runtime.core.blame import Cause
from pyrula_runtime.core.errors import ErrorRecord
from pyrula_runtime.engine.codec import dump_error
from pyrula_runtime.stores.protocol import Amendment, Release, Store
from tests.client.convicts import quarantined, taken

HOUR_S = 3_600.0


async def ended(store: Store, status: RunStatus, workflow: str = "order") -> str:
    """The oldest run of a workflow is ended like this."""
    claim = await taken(store, workflow)
    error = dump_error(ErrorRecord(type="ValueError", message="broken"))
    assert await store.release(Release(token=claim.token, status=status, ready=False, error=error))
    return claim.token.run_id


async def named(client: WorkflowClient, count: int) -> list[str]:
    """So many runs; their ids are in the order of their age, also within a millisecond."""
    return [(await client.submit("order", run_id=f"r-{number:03}")).run_id for number in range(count)]


async def four(client: WorkflowClient, store: Store) -> list[str]:
    """Runs that failed, are paused, were quarantined for blocking and for crashing; and one that completed."""
    await named(client, 5)
    made = [await ended(store, RunStatus.failed), await ended(store, RunStatus.paused)]
    made += [await quarantined(store, "order"), await quarantined(store, "order", Cause.crashed)]
    await ended(store, RunStatus.completed)
    await client.submit("mail")
    return made


async def ids(client: WorkflowClient, **of: Any) -> list[str]:
    return [each.run_id for each in await client.choose("requeue", **of)]


async def test_what_can_be_requeued_is_found_by_what_is_known_of_it(url: str) -> None:
    store = open_store(url)
    async with WorkflowClient(store) as client:
        failed, paused, blocked, crashed = made = await four(client, store)
        assert await ids(client) == made
        assert await ids(client, limit=2) == [failed, paused]
        assert await ids(client, status="quarantined") == [blocked, crashed]
        assert await ids(client, status=["failed", RunStatus.paused]) == [failed, paused]
        assert await ids(client, cause="loop_blocked") == [blocked]
        assert await ids(client, cause="crashed", status="failed") == []
        assert await ids(client, workflow="mail") == []
        assert await ids(client, workflow="order", newer_than=HOUR_S) == made
        assert await ids(client, older_than=HOUR_S) == []


@pytest.mark.parametrize(
    ("of", "words"),
    [
        ({"status": "running"}, "runs that are running cannot be requeued"),
        ({"status": "lost"}, "'lost' is not a valid RunStatus"),
        ({"cause": "blameless"}, "cause 'blameless' must be one of"),
        ({"older_than": float("nan")}, "older_than=nan must be a number of seconds"),
        ({"limit": 0}, "limit is 0, but must be a whole number from 1 to 1,000,000"),
        ({"limit": 10**30}, "limit is of many digits"),
    ],
)
async def test_what_cannot_be_asked_for(client: WorkflowClient, of: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        await client.choose("requeue", **of)


async def test_many_pages_are_chosen_oldest_first(url: str) -> None:
    store = open_store(url)
    async with WorkflowClient(store) as client:
        runs = await named(client, 230)
        for _ in runs:
            await ended(store, RunStatus.failed)
        assert await ids(client) == runs
        going = client.bulk("requeue", await client.choose("requeue", limit=201))
        assert [result.run_id async for result in going] == runs[:201]
        assert (going.done, going.refused, going.left) == (201, 0, 0)
        assert await ids(client) == runs[201:]


async def test_one_that_refuses_does_not_keep_the_others(url: str) -> None:
    store = open_store(url)
    async with WorkflowClient(store) as client:
        failed, _, blocked, _ = await four(client, store)
        (queued,) = [each.run_id for each in await client.list(status="queued")]
        going = client.bulk("requeue", [failed, queued, "nobody", blocked, failed])
        told = {result.run_id: type(result.refusal) async for result in going}
        assert (going.done, going.refused, going.left) == (2, 2, 0)
        assert await client.status(blocked) is RunStatus.queued
    assert told == {failed: type(None), queued: IllegalTransition, "nobody": RunNotFound, blocked: type(None)}


async def test_what_has_changed_since_it_was_chosen_is_left_alone(url: str) -> None:
    store = open_store(url)
    async with WorkflowClient(store) as client:
        run = await client.submit("order")
        await quarantined(store, "order")
        chosen = await client.choose("requeue", cause="loop_blocked")
        await client.requeue(run.run_id)
        await ended(store, RunStatus.failed)
        (result,) = [each async for each in client.bulk("requeue", chosen)]
        assert await run.status() is RunStatus.failed
    assert str(result.refusal) == f"run {run.run_id} has changed since it was chosen: it is failed now"


class Wound:
    """A clock that goes on only by pauses, and by what a test adds."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.pauses: list[float] = []

    async def sleep(self, pause_s: float) -> None:
        self.pauses.append(round(pause_s, 6))
        self.now_s += pause_s


async def test_runs_are_spaced_evenly_by_a_clock(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store, clock = open_store(url), Wound()
    takes_s = iter([0.1, 0.1, 2.0, 0.0, 0.0])
    amend = store.amend

    async def slow(amendment: Amendment) -> bool:
        clock.now_s += next(takes_s)
        return await amend(amendment)

    async with WorkflowClient(store) as client:
        runs = await named(client, 5)
        for _ in runs:
            await ended(store, RunStatus.failed)
        monkeypatch.setattr(store, "amend", slow)
        going = Bulk(
            Door(store),
            Deed(act=Act.requeue),
            runs,
            2,
            now_ms=lambda: 1_000,
            now_s=lambda: clock.now_s,
            sleep=clock.sleep,
        )
        assert [result.refusal async for result in going] == [None] * 5
    assert clock.pauses == [0.4, 0.4, 0.5]  # none after the one that was late, and no burst


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf"), 1e9])
def test_what_is_no_speed_is_refused(url: str, rate: float) -> None:
    with pytest.raises(UsageError, match="must be from one run an hour"):
        WorkflowClient(open_store(url)).bulk("requeue", ["r"], rate=rate)


def test_one_id_is_not_several(url: str) -> None:
    with pytest.raises(UsageError, match=r"bulk\('requeue', \['run-1'\]\)"):
        WorkflowClient(open_store(url)).bulk("requeue", "run-1")


async def test_an_interrupt_leaves_a_clear_count(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(url)
    amend = store.amend
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def held(amendment: Amendment) -> bool:
        begun.set()
        await go_on.wait()
        return await amend(amendment)

    async with WorkflowClient(store) as client:
        runs = await named(client, 3)
        for _ in runs:
            await ended(store, RunStatus.failed)
        monkeypatch.setattr(store, "amend", held)
        going = client.bulk("requeue", runs)
        first = asyncio.ensure_future(anext(going))
        await begun.wait()
        first.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert (going.done, going.refused, going.left) == (1, 0, 2)
        assert [await client.status(each) for each in runs] == ["queued", "failed", "failed"]
        assert [result.run_id async for result in going] == runs[1:]  # whoever wants to can go on


async def test_a_pause_is_interrupted_at_once(url: str) -> None:
    store = open_store(url)
    async with WorkflowClient(store) as client:
        runs = await named(client, 2)
        for _ in runs:
            await ended(store, RunStatus.failed)
        going = client.bulk("requeue", runs, rate=1 / HOUR_S)
        await anext(going)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await anext(going)
        assert (going.done, going.left) == (1, 1)


def test_without_a_loop(url: str) -> None:
    async def fill() -> list[str]:
        store = open_store(url)
        async with WorkflowClient(store) as client:
            return await four(client, store)

    failed, *others = asyncio.run(fill())
    with SyncClient(open_store(url)) as client:
        assert [each.run_id for each in client.choose("requeue", status="failed")] == [failed]
        assert [each.run_id for each in client.choose("requeue", "order", newer_than=HOUR_S)] == [failed, *others]
        going = client.bulk("requeue", [*client.choose("requeue"), "nobody"], rate=500)
        began_s = time.monotonic()
        told = [(result.run_id, result.refusal is None) for result in going]
        assert time.monotonic() - began_s >= 4 / 500
        assert told == [*((run_id, True) for run_id in (failed, *others)), ("nobody", False)]
        assert (going.done, going.refused, going.left) == (4, 1, 0)
        assert client.list(suspects=True) == ()
        with pytest.raises(UsageError, match="rate=0"):
            client.bulk("requeue", [], rate=0)
