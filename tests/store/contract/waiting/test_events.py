"""Events: once per id and workflow, never dropped for want of a subscriber, forgotten only when they are settled."""

from __future__ import annotations

from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import Emission, Event, PendingEvent, Store, Wake
from tests.store.listening import woken_by
from tests.store.samples import DAY_MS, new_run
from tests.store.sites import Site

CREATED = Event(event_id="e1", name="order.created", body=b'{"id": 7}')
NAMES = frozenset({"order.created"})


async def pending(store: Store, *workflows: str) -> list[tuple[str, str | None]]:
    found = await store.events_pending(frozenset(workflows) if workflows else None, 10)
    return [(each.event.event_id, each.workflow) for each in found]


async def test_an_event_is_for_each_workflow_that_wants_it_once(store: Store) -> None:
    await store.subscribe("ship", "1", NAMES)
    await store.subscribe("ship", "2", NAMES)
    await store.subscribe("bill", None, NAMES | {"order.paid"})
    await store.subscribe("other", None, frozenset({"order.paid"}))
    assert await store.emit(CREATED) is Emission.accepted
    assert await store.emit(CREATED) is Emission.duplicate
    assert await pending(store) == [("e1", "bill"), ("e1", "ship")]
    assert await pending(store, "ship") == [("e1", "ship")]
    assert await pending(store, "other") == []
    run = new_run("ship")
    assert await store.settle_event("e1", "ship", run)
    assert not await store.settle_event("e1", "ship", new_run("ship"))
    assert await store.counts() == {("ship", RunStatus.queued): 1}
    assert await pending(store) == [("e1", "bill")]
    assert await store.settle_event("e1", "bill", None)
    assert await pending(store) == []
    assert await store.emit(CREATED) is Emission.duplicate


async def test_a_deferred_event_is_seen_and_delivered_once_when_a_subscriber_comes(
    site: Site, store: Store, clock: ManualClock
) -> None:
    await store.emit(CREATED)
    (deferred,) = await store.events_pending(None, 10)
    assert (deferred.event, deferred.workflow, deferred.emitted_ms) == (CREATED, None, clock.wall_ms())
    assert not await store.settle_event("e1", "ship", None)
    await woken_by(site, lambda: store.subscribe("ship", None, NAMES), Wake.timer)
    assert await pending(store) == [("e1", "ship")]
    await store.subscribe("ship", None, NAMES)
    await store.subscribe("bill", None, NAMES)  # it came too late for this one
    assert await pending(store) == [("e1", "ship")]
    assert await store.settle_event("e1", "ship", new_run("ship"))
    assert await pending(store) == []


async def test_a_version_takes_back_what_it_wanted(store: Store) -> None:
    await store.subscribe("ship", None, NAMES)
    await store.subscribe("ship", None, frozenset())
    await store.emit(CREATED)
    assert await pending(store) == [("e1", None)]


async def test_events_come_in_order_and_in_pages(store: Store) -> None:
    await store.emit(CREATED)
    await store.subscribe("ship", None, frozenset({"order.paid"}))
    for name in ("e3", "e2"):
        await store.emit(Event(event_id=name, name="order.paid", body=b""))
    assert await pending(store) == [("e1", None), ("e3", "ship"), ("e2", "ship")]
    assert [each.event.event_id for each in await store.events_pending(None, 2)] == ["e1", "e3"]


async def test_a_page_goes_on_behind_the_last_event_of_the_one_before(store: Store) -> None:
    await store.emit(Event(event_id="e0", name="order.sent", body=b""))
    for workflow in ("bill", "mail", "ship"):
        await store.subscribe(workflow, None, NAMES)
    for name in ("e1", "e2"):
        await store.emit(Event(event_id=name, name="order.created", body=b""))
    expected = [(name, workflow) for name in ("e1", "e2") for workflow in ("bill", "mail", "ship")]
    for workflows, whole in (
        (None, [("e0", None), *expected]),
        (frozenset({"mail", "ship"}), [pair for pair in expected if pair[1] != "bill"]),
    ):
        for limit in (1, 2, 3, 10):
            seen: list[PendingEvent] = []
            while page := await store.events_pending(workflows, limit, seen[-1] if seen else None):
                assert len(page) <= limit
                seen += page
            assert [(each.event.event_id, each.workflow) for each in seen] == whole
    first, *_ = await store.events_pending(frozenset({"bill"}), 1)
    await store.settle_event("e1", "bill", None)
    (second,) = await store.events_pending(frozenset({"bill"}), 10, first)
    assert second.event.event_id == "e2"
    assert await store.events_pending(frozenset({"bill"}), 10, second) == ()


async def test_an_event_rings(site: Site, store: Store) -> None:
    await store.subscribe("ship", None, NAMES)
    await woken_by(site, lambda: store.emit(CREATED), Wake.timer)


async def test_only_settled_events_are_forgotten_and_not_before_their_time(store: Store, clock: ManualClock) -> None:
    await store.subscribe("ship", None, NAMES)
    for name, ttl_ms in (("short", DAY_MS), ("long", 3 * DAY_MS), ("open", DAY_MS)):
        await store.emit(Event(event_id=name, name="order.created", body=b"", ttl_ms=ttl_ms))
    for name in ("short", "long"):
        await store.settle_event(name, "ship", None)
    assert await store.purge(10) == 0
    clock.move(2 * DAY_MS)
    assert await store.purge(10) == 1
    assert await store.emit(Event(event_id="short", name="none", body=b"")) is Emission.accepted
    assert await store.emit(Event(event_id="long", name="none", body=b"")) is Emission.duplicate
    assert await pending(store) == [("open", "ship"), ("short", None)]
