"""A server whose memory is full: what begins something is refused whole, what ends, frees or keeps a run is done.

Each script starts with a write, and the server asks only before a script's first one whether there is room.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.core.status import DELIVERY, DUE, RunStatus
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import Amendment, Append, Claim, Ending, Event, Release, ScheduleRecord
from pyrula_runtime.stores.valkey.store import ValkeyStore
from tests.store.samples import COMPLETED, FAILED, TTL_MS, appending, claimed, message, new_run, waiting, worker
from tests.store.samples import request as asking
from tests.store.valkey.audit import audit
from tests.store.valkey.conftest import QUICK
from tests.store.valkey.servers import SURE, Server, kinds_of_server

Asks = Callable[[ValkeyStore, Claim], Awaitable[Any]]
DAY_MS = 86_400_000
EVENT = Event(event_id="e", name="order.created", body=b"{}")
SCHEDULE = ScheduleRecord(schedule_id="nightly", rev=0, record=b"{}", next_ms=1)
AGAIN = Ending(status=RunStatus.queued, again=b'"next"')

BEGIN: dict[str, Asks] = {
    "submit": lambda store, _: store.submit(new_run()),
    "submit with a key": lambda store, _: store.submit(new_run(key="another")),
    "claim": lambda store, _: store.claim(asking()),
    "append": lambda store, claim: store.commit(appending(claim.token, 0, b"a")),
    "deliver": lambda store, claim: store.deliver(message(claim.token.run_id), DELIVERY),
    "emit": lambda store, _: store.emit(EVENT),
    "put a schedule": lambda store, _: store.put_schedule(SCHEDULE),
    "beat": lambda store, _: store.beat(worker("w-1"), 60_000),
    "ping": lambda store, _: store.ping(),
}


def _amendment(claim: Claim, **more: Any) -> Amendment:
    return Amendment(run_id=claim.token.run_id, rev=2, **more)


END: dict[str, Asks] = {
    "finish": lambda store, claim: store.commit(appending(claim.token, 0, b"a", ending=COMPLETED)),
    "fail": lambda store, claim: store.commit(appending(claim.token, 0, b"a", b"b", ending=FAILED)),
    "suspend": lambda store, claim: store.commit(appending(claim.token, 0, b"a", ending=waiting(2**42))),
    "go on as new": lambda store, claim: store.commit(appending(claim.token, 0, b"a", ending=AGAIN)),
    "release": lambda store, claim: store.release(
        Release(token=claim.token, status=RunStatus.failed, ready=False, error=b"{}")
    ),
    "renew": lambda store, claim: store.renew([claim.token], TTL_MS),
    "request a cancel": lambda store, claim: store.amend(_amendment(claim, cancel_requested=True)),
    "cancel": lambda store, claim: store.amend(_amendment(claim, status=RunStatus.cancelled, ready=False)),
    "reclaim": lambda store, _: store.reclaim_lapsed(RunStatus.queued, TTL_MS, 10),
    "retire": lambda store, _: store.retire("w-0"),
    "purge": lambda store, _: store.purge(10),
    "holdings": lambda store, _: store.holdings("w-1"),
    "read": lambda store, claim: store.read(claim.token.run_id),
}


@pytest.fixture(params=list(kinds_of_server()))
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """The servers differ in when they look at their memory."""
    server = Server(*SURE, kind=request.param)
    yield server
    server.stop()


@pytest.fixture
async def full(server: Server) -> Any:
    """A store with a run in hand and another in line, a second after it was used last, on a server that is full."""
    clock = ManualClock()
    store = ValkeyStore(server.address(), clock, QUICK)
    await store.open()
    await store.beat(worker("w-0"), 60_000)
    claim = await claimed(store)
    await store.submit(new_run(key="k"))
    clock.move(2_000)
    server.ask("CONFIG", "SET", "maxmemory", "100kb")
    yield store, claim, clock
    await store.close()
    assert audit(server.address()) == []


@pytest.mark.parametrize("name", BEGIN)
async def test_what_begins_something_is_refused_whole(server: Server, full: Any, name: str) -> None:
    store, claim, _ = full
    before = server.contents()
    with pytest.raises(StoreUnavailable, match="it has reached its maxmemory"):
        await BEGIN[name](store, claim)
    assert server.contents() == before
    server.ask("CONFIG", "SET", "maxmemory", "0")
    await BEGIN[name](store, claim)


@pytest.mark.parametrize("name", END)
async def test_what_ends_or_keeps_a_run_is_done(full: Any, name: str) -> None:
    store, claim, _ = full
    answer = await END[name](store, claim)
    assert getattr(answer, "append", Append.done) is Append.done
    assert answer is not False


async def test_a_run_that_ends_takes_no_successor_into_a_full_memory(full: Any) -> None:
    store, claim, _ = full
    ending = appending(claim.token, 0, b"a", ending=COMPLETED, claim=asking())
    assert (await store.commit(ending)).claims == ()


async def test_locks_outlive_a_memory_that_stays_full(full: Any, server: Server) -> None:
    # if renewals failed with everything else, every live run would lapse, and begin its step again elsewhere
    store, claim, clock = full
    for _ in range(10):
        clock.move(TTL_MS // 3)
        assert (await store.renew([claim.token], TTL_MS)).lost == frozenset()
        lapsed = await store.reclaim_lapsed(RunStatus.queued, TTL_MS, 10)
        assert (lapsed.run_ids, lapsed.grace) == ((), False)
    server.ask("CONFIG", "SET", "maxmemory", "0")
    assert (await store.commit(appending(claim.token, 0, b"a"))).append is Append.done


async def test_what_is_due_goes_on_with_a_full_memory(full: Any, server: Server) -> None:
    store, claim, clock = full
    await store.commit(appending(claim.token, 0, ending=waiting(clock.wall_ms() + 5)))
    assert (await store.wake_due(DUE, 10)).woken == 0
    clock.move(5)
    assert (await store.wake_due(DUE, 10)).woken == 1


async def test_records_of_keys_go_from_a_full_memory(full: Any) -> None:
    store, _, clock = full
    clock.move(DAY_MS + 1)
    assert await store.purge(10) == 1
