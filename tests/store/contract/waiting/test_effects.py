"""Effects: what a write does to other runs happens with it or not at all, and once however often it is repeated."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.core.status import CANCELLATION, DELIVERY, RunStatus
from pyrula_runtime.core.tree import OnEnd
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import (
    Amendment,
    Append,
    CancelRun,
    DeliverTo,
    EmitEvent,
    Event,
    ParentLink,
    Release,
    RunQuery,
    Store,
    SubmitRun,
    Wake,
)
from tests.store.listening import woken_by
from tests.store.samples import (
    COMPLETED,
    TTL_MS,
    appending,
    claimed,
    message,
    new_run,
    request,
    status_of,
    suspended,
    until,
)
from tests.store.sites import Site


async def is_pending(store: Store, workflow: str | None) -> bool:
    return [each.workflow for each in await store.events_pending(None, 10)] == [workflow]


async def test_a_commit_strikes_other_runs_in_its_write(store: Store) -> None:
    parent = await suspended(store)
    await store.subscribe("audit", None, frozenset({"done"}))
    claim = await claimed(store)
    new = new_run("audit")
    effects = (
        DeliverTo(message=message(parent.token.run_id), moves=DELIVERY),
        SubmitRun(run=new),
        EmitEvent(event=Event(event_id="e", name="done", body=b"1")),
    )
    commit = replace(appending(claim.token, 0, b"a", ending=COMPLETED), effects=effects)
    assert (await store.commit(commit)).append is Append.done
    assert await status_of(store, parent.token.run_id) == RunStatus.queued
    assert await status_of(store, new.run_id) == RunStatus.queued
    await until(lambda: is_pending(store, "audit"))  # events have a shard of their own, where there are several


async def test_an_effect_whose_answer_was_lost_does_nothing_twice(store: Store) -> None:
    parent, other = await suspended(store), await claimed(store, workflow="other")
    claim = await claimed(store)
    new = new_run("made")
    effects = (
        DeliverTo(message=message(parent.token.run_id), moves=DELIVERY),
        SubmitRun(run=new),
        CancelRun(run_id=other.token.run_id, moves=CANCELLATION),
        EmitEvent(event=Event(event_id="e", name="done", body=b"1")),
    )
    commit = replace(appending(claim.token, 0, b"a"), effects=effects, facts=(b"f",))
    assert (await store.commit(commit)).append is Append.done
    before = await store.find(RunQuery())
    assert (await store.commit(commit)).append is Append.duplicate
    assert await store.find(RunQuery()) == before
    await until(lambda: is_pending(store, None))
    assert len(await store.events_pending(None, 10)) == 1
    assert [fact.body for fact in await store.read_facts(claim.token.run_id, 0, 10)] == [b"f"]
    # nor if another write brings the same
    assert (await store.commit(replace(appending(claim.token, 1, b"b"), effects=effects))).append is Append.done
    after = await store.find(RunQuery())
    assert [(run.run_id, run.rev, run.inbox_len) for run in after] == [
        (run.run_id, run.rev, run.inbox_len) for run in before
    ]
    assert len(await store.events_pending(None, 10)) == 1


async def test_a_refused_commit_strikes_nobody(store: Store) -> None:
    claim = await claimed(store)
    new = new_run()
    refused = replace(appending(claim.token, 7, b"a"), effects=(SubmitRun(run=new),))
    assert (await store.commit(refused)).append is Append.gap
    assert await store.read(new.run_id) is None


async def test_releases_and_amendments_have_effects_too(store: Store) -> None:
    claim = await claimed(store)
    first, second = new_run(), new_run()
    release = Release(token=claim.token, status=RunStatus.quarantined, ready=False, effects=(SubmitRun(run=first),))
    assert await store.release(release)
    amendment = Amendment(run_id=claim.token.run_id, rev=3, effects=(SubmitRun(run=second),))
    assert await store.amend(amendment)
    assert {run.run_id for run in await store.find(RunQuery(statuses=frozenset({RunStatus.queued})))} == {
        first.run_id,
        second.run_id,
    }


async def test_a_refused_release_or_amendment_has_no_effect(store: Store) -> None:
    claim = await claimed(store)
    new = new_run()
    effects = (SubmitRun(run=new),)
    stale = replace(claim.token, nonce="other")
    assert not await store.release(Release(token=stale, status=RunStatus.queued, ready=True, effects=effects))
    assert not await store.amend(Amendment(run_id=claim.token.run_id, rev=1, effects=effects))
    assert await store.read(new.run_id) is None


async def test_a_message_to_nobody_is_dropped(store: Store) -> None:
    claim = await claimed(store)
    effects = (
        DeliverTo(message=message("none"), moves=DELIVERY),
        CancelRun(run_id="none", moves=CANCELLATION),
    )
    assert (await store.commit(replace(appending(claim.token, 0, b"a"), effects=effects))).append is Append.done


# parents and children


def child_of(parent: str, on_end: OnEnd = OnEnd.cancel) -> ParentLink:
    return ParentLink(run_id=parent, op_id="ship#1", on_end=on_end)


async def test_a_child_knows_its_parent_and_the_parent_its_children(store: Store) -> None:
    parent = await claimed(store)
    run_id = parent.token.run_id
    children = [replace(new_run(), parent=child_of(run_id, policy)) for policy in OnEnd]
    commit = replace(appending(parent.token, 0, b"a"), effects=tuple(SubmitRun(run=child) for child in children))
    await store.commit(commit)
    claims = await store.claim(request())
    assert [claim.parent for claim in claims] == [child.parent for child in children]
    await store.commit(appending(claims[0].token, 0, ending=COMPLETED))
    assert [each.run_id for each in await store.find(RunQuery(parent=run_id))] == [
        child.run_id for child in reversed(children)
    ]
    left = frozenset({RunStatus.running})
    assert [each.parent for each in await store.find(RunQuery(parent=run_id, statuses=left))] == [children[1].parent]
    assert await store.find(RunQuery(parent=run_id, workflow="other")) == ()
    assert await store.find(RunQuery(parent=run_id, limit=1, before=children[1].run_id)) == (
        await store.read(children[0].run_id),
    )


async def test_children_of_one_workflow_are_found_also_if_they_are_pinned(store: Store) -> None:
    parent = await claimed(store)
    run_id = parent.token.run_id
    pinned, free = [replace(new_run("ship", version), parent=child_of(run_id)) for version in ("1", None)]
    await store.submit(pinned)
    await store.submit(free)
    assert [each.run_id for each in await store.find(RunQuery(parent=run_id, workflow="ship"))] == [
        free.run_id,
        pinned.run_id,
    ]


async def test_an_outcome_that_comes_before_the_parent_waits_is_not_missed(store: Store) -> None:
    parent, child = await claimed(store), await claimed(store)
    outcome = DeliverTo(message=message(parent.token.run_id, "child"), moves=DELIVERY)
    ended = replace(appending(child.token, 0, ending=COMPLETED), effects=(outcome,))
    await store.commit(ended)
    assert (await store.commit(ended)).append is Append.duplicate
    assert [each.message_id for each in await store.read_inbox(parent.token.run_id, 0)] == ["child"]


async def test_a_cancel_reaches_every_live_run_of_a_tree_once(store: Store, clock: ManualClock) -> None:
    parent = await claimed(store, workflow="parent")
    sleeping = await suspended(store, due_ms=clock.wall_ms() + 5, seen=None)
    running = await claimed(store)
    ended = await claimed(store)
    await store.commit(appending(ended.token, 0, ending=COMPLETED))
    queued, paused = new_run("later"), new_run("later")
    for run in (queued, paused):
        await store.submit(run)
    await store.amend(Amendment(run_id=paused.run_id, rev=1, status=RunStatus.paused, ready=False))
    struck = [sleeping.token.run_id, running.token.run_id, queued.run_id, paused.run_id]
    effects = tuple(CancelRun(run_id=run, moves=CANCELLATION) for run in (*struck, ended.token.run_id))
    await store.commit(replace(appending(parent.token, 0, b"a"), effects=effects))
    records = [await store.read(run) for run in struck]
    assert [record and (str(record.status), record.cancel_requested) for record in records] == [
        ("queued", True),
        ("running", True),
        ("queued", True),
        ("queued", True),
    ]
    record = await store.read(ended.token.run_id)
    assert record is not None
    assert not record.cancel_requested
    assert (await store.renew([running.token], TTL_MS)).cancelled == {running.token.run_id}
    await store.commit(replace(appending(parent.token, 1, b"b"), effects=effects))
    assert [await store.read(run) for run in struck] == records
    assert len(await store.claim(request(("order", "1"), ("later", "1")))) == 3


async def test_a_held_run_that_is_cancelled_by_an_effect_is_told(site: Site, store: Store) -> None:
    claim, other = await claimed(store), await claimed(store)
    cancel = CancelRun(run_id=other.token.run_id, moves=CANCELLATION)
    commit = replace(appending(claim.token, 0, b"a"), effects=(cancel,))
    await woken_by(site, lambda: store.commit(commit), Wake.attention)


# what a run tells


async def test_facts_are_numbered_without_gaps_and_the_last_status_is_shown(store: Store) -> None:
    claim = await claimed(store)
    run_id = claim.token.run_id
    await store.commit(replace(appending(claim.token, 0, b"a"), facts=(b"1", b"2"), shown=b'"half"'))
    await store.commit(replace(appending(claim.token, 1), shown=b'"most"'))
    await store.commit(replace(appending(claim.token, 1, ending=COMPLETED), facts=(b"3",)))
    facts = await store.read_facts(run_id, 1, 10)
    assert [(fact.seq, fact.body) for fact in facts] == [(2, b"2"), (3, b"3")]
    assert len(await store.read_facts(run_id, 0, 1)) == 1
    record = await store.read(run_id)
    assert record is not None
    assert record.shown == b'"most"'
    assert await store.read_facts("none", 0, 10) == ()


async def test_facts_without_anything_that_tells_a_repetition_are_refused(store: Store) -> None:
    claim = await claimed(store)
    with pytest.raises(UsageError, match="tells facts without entries or an ending"):
        await store.commit(replace(appending(claim.token, 0), facts=(b"1",)))
