"""A run that is quarantined has relatives: its parent hears of it, its children end with it, in the same write."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from pyrula_runtime.core.blame import Judgement, Record
from pyrula_runtime.core.errors import ErrorRecord
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.core.tree import OnEnd
from pyrula_runtime.engine.judged_runs import release_of
from pyrula_runtime.stores.protocol import Holding, ParentLink, Store
from tests.store.samples import claimed, new_run, request

POISON = ErrorRecord(type="EventLoopBlocked", message="its code blocked its worker")


def child_of(run: str, on_end: OnEnd = OnEnd.cancel) -> ParentLink:
    return ParentLink(run_id=run, op_id="kid#1", on_end=on_end)


async def held_child(store: Store, parent: str) -> Holding:
    """A child of this run that is being executed."""
    run = replace(new_run("kid"), parent=child_of(parent))
    await store.submit(run)
    await store.claim(request(("kid", None), limit=1))
    (holding,) = [each for each in await store.holdings("w-1") if each.token.run_id == run.run_id]
    return holding


async def cancels(store: Store, *runs: str) -> list[bool]:
    """Whether the cancellation of these was requested."""
    records = [await store.read(run) for run in runs]
    return [record is not None and record.cancel_requested for record in records]


@pytest.mark.parametrize("error", [None, POISON])
async def test_only_a_quarantine_is_told_to_relatives(store: Store, error: ErrorRecord | None) -> None:
    parent = (await claimed(store)).token.run_id
    holding = await held_child(store, parent)
    bound, free = (replace(new_run(), parent=child_of(holding.token.run_id, on_end)) for on_end in OnEnd)
    await store.submit(bound)
    await store.submit(free)
    judgement = Judgement(record=Record(), error=error)
    assert await store.release(await release_of(store, holding, judgement))
    record = await store.read(holding.token.run_id)
    assert record is not None
    told = await store.read_inbox(parent, 0)
    if error is None:
        assert (record.status, told) == (RunStatus.queued, ())
        assert await cancels(store, bound.run_id, free.run_id) == [False, False]
        return
    assert record.status is RunStatus.quarantined
    (letter,) = told
    assert (letter.message_id, letter.name) == (f"child/{record.run_id}", f"child/{record.run_id}")
    tree = orjson.loads(letter.body)
    assert (tree["status"], tree["error"]["type"]) == ("quarantined", "EventLoopBlocked")
    assert await cancels(store, bound.run_id, free.run_id) == [True, False]
