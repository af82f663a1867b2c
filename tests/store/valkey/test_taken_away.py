"""What a server takes from a store that is open, it may give back: nobody dies of it, and nothing is half done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from pyrula_runtime.core.errors import StoreRefused, StoreUnavailable
from pyrula_runtime.core.status import DELIVERY, DUE, RunStatus
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import Amendment, Append, Claim, Release, Wake
from pyrula_runtime.stores.valkey.address import Address
from pyrula_runtime.stores.valkey.store import ValkeyStore
from tests.store.samples import COMPLETED, TTL_MS, appending, claimed, message, new_run, request, until
from tests.store.valkey.audit import audit
from tests.store.valkey.conftest import QUICK
from tests.store.valkey.servers import Server

Opened = Callable[..., Awaitable[ValkeyStore]]
RIGHTS = ("on", ">secret", "~py:*", "&py:*", "+@all")


@pytest.fixture
def user(server: Server) -> Address:
    """A user that may do all that is needed."""
    server.ask("ACL", "SETUSER", "worker", *RIGHTS)
    return replace(server.address(), user="worker", password="secret")


# what an operator takes from a user, and how it is given back
@pytest.mark.parametrize(
    ("taken", "says"),
    [
        (("-rpush",), "does not permit this user"),
        (("-zadd",), "does not permit this user"),
        (("-evalsha",), "does not permit this user"),
        (("-publish",), "does not permit this user"),
        (("resetkeys", "~other:*"), "does not permit this user"),
        (("resetpass", ">another"), "does not accept this user and password"),
        (("off",), "does not accept this user and password"),
    ],
)
async def test_a_right_that_is_dropped_is_waited_for(
    opened: Opened, server: Server, user: Address, taken: tuple[str, ...], says: str
) -> None:
    store = await opened(user)
    claim = await claimed(store)
    assert await store.claim(request()) == ()  # from now on there is somebody to be told of runs
    server.ask("ACL", "SETUSER", "worker", *taken)
    server.ask("CLIENT", "KILL", "TYPE", "normal")

    async def refuses() -> bool:
        try:
            await store.commit(appending(claim.token, 0, b"a"))
            await store.submit(new_run())
        except StoreUnavailable as error:
            return says in str(error)
        return False

    await until(refuses)
    assert audit(server.address()) == []
    server.ask("ACL", "SETUSER", "worker", "resetpass", *RIGHTS)
    server.ask("CLIENT", "KILL", "TYPE", "normal")

    async def goes_on() -> bool:
        try:
            return (await store.commit(appending(claim.token, 0, b"a"))).append in (Append.done, Append.duplicate)
        except StoreUnavailable:
            return False

    await until(goes_on)
    assert (await store.submit(new_run())).run_id
    assert audit(server.address()) == []


WRITES = (
    "set",
    "incr",
    "hset",
    "hdel",
    "hincrby",
    "zadd",
    "zrem",
    "zincrby",
    "sadd",
    "srem",
    "zremrangebyscore",
    "rpush",
    "lpop",
    "setrange",
    "del",
    "unlink",
    "publish",
)
VERBS: dict[str, Callable[[ValkeyStore, Claim], Awaitable[Any]]] = {
    "submit": lambda store, _: store.submit(new_run(key="k")),
    "claim": lambda store, _: store.claim(request(incarnation="w-2")),
    "append": lambda store, claim: store.commit(appending(claim.token, 0, b"a")),
    "finish": lambda store, claim: store.commit(appending(claim.token, 0, b"a", ending=COMPLETED)),
    "release": lambda store, claim: store.release(Release(token=claim.token, status=RunStatus.queued, ready=True)),
    "cancel": lambda store, claim: store.amend(Amendment(run_id=claim.token.run_id, rev=2, cancel_requested=True)),
    "deliver": lambda store, claim: store.deliver(message(claim.token.run_id), DELIVERY),
    "wake": lambda store, _: store.wake_due(DUE, 10),
}


@pytest.mark.parametrize("taken", WRITES)
async def test_no_script_is_broken_off_by_a_right_that_is_missing(server: Server, user: Address, taken: str) -> None:
    # a run whose script ends in the middle would be in no line, or without a lock, for ever
    clock = ManualClock()
    store = ValkeyStore(user, clock, QUICK)
    await store.open()
    claim = await claimed(store)
    await store.submit(new_run())
    await store.submit(replace(new_run(), status=RunStatus.waiting, start_at_ms=clock.wall_ms() + 1_000))
    clock.move(1_000)
    server.ask("ACL", "SETUSER", "worker", f"-{taken}")
    before = server.contents()
    for act in VERBS.values():
        with pytest.raises(StoreUnavailable, match="does not permit this user"):
            await act(store, claim)
    assert server.contents() == before
    server.ask("ACL", "SETUSER", "worker", f"+{taken}")
    for act in VERBS.values():
        await act(store, claim)
    assert audit(server.address()) == []
    await store.close()


async def test_who_may_not_begin_is_refused_at_once(server: Server, user: Address) -> None:
    server.ask("ACL", "SETUSER", "worker", "-hset")
    with pytest.raises(StoreRefused, match="does not permit this user what pyrula needs"):
        await ValkeyStore(user).open()


async def test_a_store_that_was_emptied_is_used_on_and_opened_again(opened: Opened, server: Server) -> None:
    # a server that was started again without its files, under workers that have it open
    store = await opened(server.address())
    claim = await claimed(store)
    server.ask("FLUSHALL")
    assert (await store.commit(appending(claim.token, 0, b"a"))).append is Append.fenced
    assert (await store.renew([claim.token], TTL_MS)).lost == {claim.token.run_id}
    assert (await store.reclaim_lapsed(RunStatus.queued, TTL_MS, 10)).run_ids == ()
    run = new_run()
    await store.submit(run)
    other = await opened(server.address())
    (again,) = await other.claim(request())
    assert again.token.run_id == run.run_id
    assert audit(server.address()) == []


async def test_a_subscription_that_is_not_allowed_any_more_leaves_the_looks_of_every_second(
    opened: Opened, server: Server, user: Address
) -> None:
    store = await opened(user)
    wakes: list[Wake] = []
    listening = store.listen(wakes.append, frozenset({Wake.ready}))
    await listening.is_heard.wait()
    server.ask("ACL", "SETUSER", "worker", "resetchannels", "&other:*")

    async def looks() -> bool:
        return len(wakes) >= 3

    wakes.clear()
    await until(looks)
    assert not listening.is_heard.is_set()
    server.ask("ACL", "SETUSER", "worker", *RIGHTS)
    await listening.is_heard.wait()
    listening.close()
