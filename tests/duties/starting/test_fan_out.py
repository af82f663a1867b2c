"""Events that begin runs: once for each workflow, if its filter admits them, and never lost."""

from __future__ import annotations

import asyncio
import threading
from base64 import b85decode, b85encode
from collections.abc import Sequence
from typing import Any

import pytest

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.duties import fan_out
from pyrula_runtime.duties.declaring import Declaring
from pyrula_runtime.duties.fan_out import FanOut
from pyrula_runtime.engine.payloads import PLAIN, Payloads
from pyrula_runtime.engine.program import Program, Trigger
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import Emission, Event, PendingEvent, RunQuery, RunRecord, Store
from tests.store.samples import until
from tests.store.sites import Site

CREATED = Trigger(event="order.created")
CREATED_TOO = Trigger(event="order.imported")


def program(*triggers: Trigger, name: str = "order", version: str | None = None) -> Program:
    return Program(
        name=name, version=version, run=lambda _, given: given, to_json=lambda value: value, triggers=triggers
    )


async def serving(store: Store, clock: ManualClock, *programs: Program, payloads: Payloads = PLAIN) -> FanOut:
    """A worker that has subscribed."""
    await Declaring(store, programs, "w-1").act()
    return FanOut(store, programs, payloads, clock.mono_ms)


async def told(store: Store, event_id: str, body: bytes = b"{}", name: str = "order.created") -> Emission:
    return await store.emit(Event(event_id=event_id, name=name, body=body))


async def begun(store: Store, count: int) -> Sequence[RunRecord]:
    """So many runs; in another shard than the events they begin a moment later."""
    found: Sequence[RunRecord] = ()

    async def are_there() -> bool:
        nonlocal found
        found = await store.find(RunQuery(limit=200))
        return len(found) >= count

    await until(are_there)
    assert len(found) == count
    return found


async def inputs(store: Store, count: int) -> list[bytes]:
    """What so many runs were given."""
    return sorted(run.input for run in await begun(store, count))


async def pending(store: Store) -> list[tuple[str, str | None]]:
    return [(each.event.event_id, each.workflow) for each in await store.events_pending(None, 100)]


async def test_an_event_begins_a_run_of_each_workflow_once(site: Site, store: Store, clock: ManualClock) -> None:
    programs = [program(CREATED, version="3"), program(CREATED, name="mail"), program(name="other")]
    workers = [await serving(await site.open(), clock, *programs) for _ in range(3)]
    assert [await told(store, "e-1", b'{"total": 5}') for _ in range(2)] == [Emission.accepted, Emission.duplicate]
    await asyncio.gather(*(each.act() for each in workers))
    runs = {run.workflow: run for run in await begun(store, 2)}
    assert {name: (run.input, run.version) for name, run in runs.items()} == {
        "order": (b'{"total": 5}', "3"),
        "mail": (b'{"total": 5}', None),
    }
    assert await pending(store) == []
    assert await told(store, "e-1") is Emission.duplicate
    await workers[0].act()
    await begun(store, 2)
    for each in workers:
        each.stop()


async def test_a_filter_chooses(store: Store, clock: ManualClock) -> None:
    worker = await serving(store, clock, program(Trigger(event="order.created", admits=lambda told: told["total"] > 9)))
    assert worker.is_needed
    for number, total in enumerate([5, 10, 15]):
        await told(store, f"e-{number}", b'{"total": %d}' % total)
    await worker.act()
    assert await inputs(store, 2) == [b'{"total": 10}', b'{"total": 15}']
    assert await pending(store) == []
    worker.stop()


async def test_many_events_are_taken_page_by_page(store: Store, clock: ManualClock) -> None:
    worker = await serving(store, clock, program(CREATED))
    for number in range(120):
        await told(store, f"e-{number}")
    await worker.act()
    await begun(store, 120)


async def test_an_event_that_nobody_wants_waits_for_whoever_will(store: Store, clock: ManualClock) -> None:
    await told(store, "e-1")
    assert await pending(store) == [("e-1", None)]
    worker = await serving(store, clock, program(CREATED))
    await worker.act()
    assert (await inputs(store, 1), await pending(store)) == ([b"{}"], [])


async def test_an_event_that_only_another_version_knows_is_left_to_it(store: Store, clock: ManualClock) -> None:
    new = await serving(store, clock, program(CREATED, version="2"))
    old = await serving(store, clock, program(Trigger(event="order.paid"), version="1"))
    await told(store, "e-1")
    await old.act()
    assert await pending(store) == [("e-1", "order")]
    await new.act()
    assert (await inputs(store, 1), await pending(store)) == ([b"{}"], [])


def broken(_payload: Any) -> bool:
    raise KeyError("total")


async def test_a_filter_that_raises_loses_nothing_and_keeps_no_other_event(
    store: Store, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    faulty = Trigger(event="order.created", admits=broken)
    worker = await serving(store, clock, program(faulty, Trigger(event="order.paid")))
    for number in range(60):
        await told(store, f"e-{number}")
    await told(store, "e-paid", b"[1]", name="order.paid")
    for _ in range(2):
        await worker.act()
    assert await inputs(store, 1) == [b"[1]"]
    assert (
        caplog.text.count("event e-0 (order.created) is left for other code of order: its filter raised KeyError") == 1
    )
    mended = FanOut(store, [program(CREATED)], PLAIN, clock.mono_ms)
    await mended.act()
    await begun(store, 61)
    clock.move(31_000)  # then the faulty one would look at them again
    await worker.act()
    worker.stop()


async def test_events_that_cannot_be_taken_do_not_make_later_rounds_longer(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await serving(store, clock, program(Trigger(event="order.created", admits=broken), CREATED_TOO))
    for number in range(120):
        await told(store, f"e-{number}")
    await worker.act()
    pages, ask = list[int](), store.events_pending

    async def counted(*of: Any) -> Sequence[PendingEvent]:
        page = await ask(*of)
        pages.append(len(page))
        return page

    monkeypatch.setattr(store, "events_pending", counted)
    await told(store, "e-good", b"[1]", name=CREATED_TOO.event)
    await worker.act()
    assert (await inputs(store, 1), pages) == ([b"[1]"], [1, 0])
    clock.move(31_000)
    await worker.act()
    assert pages[2:] == [50, 50, 20, 0]
    worker.stop()


async def test_an_event_whose_taking_failed_is_taken_in_the_next_round(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await serving(store, clock, program(CREATED))
    await told(store, "e-1")
    settle = store.settle_event

    async def fails(*_: Any) -> bool:
        monkeypatch.setattr(store, "settle_event", settle)
        raise StoreUnavailable("for a moment")

    monkeypatch.setattr(store, "settle_event", fails)
    with pytest.raises(StoreUnavailable):
        await worker.act()
    await worker.act()
    assert await inputs(store, 1) == [b"{}"]


async def test_a_filter_that_does_not_come_back_is_left_behind(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fan_out, "_PATIENCE_S", 0.05)
    release = threading.Event()

    def hangs(payload: Any) -> bool:
        return payload is not None or release.wait()

    worker = await serving(store, clock, program(Trigger(event="order.created", admits=hangs)))
    await told(store, "e-1", b"null")
    await worker.act()
    assert "its filter has not come back within 0.05 s" in caplog.text
    await told(store, "e-2", b"[2]")
    await worker.act()
    assert await inputs(store, 1) == [b"[2]"]
    release.set()
    worker.stop()


class Reversible:
    """A codec, as a user writes one."""

    def encode(self, payload: bytes) -> bytes:
        return b85encode(payload)

    def decode(self, payload: bytes) -> bytes:
        return b85decode(payload)


async def test_a_filter_sees_what_was_encoded_and_the_run_gets_it_as_it_was_stored(
    store: Store, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Any] = []

    def note(payload: Any) -> bool:
        seen.append(payload)
        return True

    payloads = Payloads(Reversible())
    with_codec = await serving(store, clock, program(Trigger(event="order.created", admits=note)), payloads=payloads)
    sealed = payloads.seal(b'{"card": 4711}')
    await told(store, "e-1", sealed)
    without = FanOut(store, [program(CREATED)], PLAIN, clock.mono_ms)
    await without.act()
    assert "is left for other code of order: it was encoded by a codec" in caplog.text
    await with_codec.act()
    assert (seen, await inputs(store, 1)) == ([{"card": 4711}], [sealed])
    with_codec.stop()
