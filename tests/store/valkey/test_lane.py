"""Lanes: answers reach who asked, nothing is run twice, and a broken connection is nobody's end."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.stores.protocol import Append, Release
from pyrula_runtime.stores.valkey.address import Address
from pyrula_runtime.stores.valkey.store import ValkeyStore
from tests.store.samples import appending, claimed, journal_of, new_run, request, until
from tests.store.valkey.audit import audit
from tests.store.valkey.conftest import QUICK
from tests.store.valkey.servers import SURE, Server

Opened = Callable[..., Awaitable[ValkeyStore]]


async def test_scripts_that_the_server_forgot_are_sent_again_in_order(opened: Opened, server: Server) -> None:
    store = await opened(server.address())
    claim = await claimed(store)
    server.ask("SCRIPT", "FLUSH")
    first = [store.commit(appending(claim.token, at, b"%d" % at)) for at in range(5)]
    await asyncio.sleep(0)  # the first five are under way when the next five are asked
    others = [store.commit(appending(claim.token, at, b"%d" % at)) for at in range(5, 10)]
    answers = await asyncio.gather(*first, *others)
    assert [(answer.append, answer.length) for answer in answers] == [(Append.done, at + 1) for at in range(10)]
    assert await journal_of(store, claim.token.run_id) == [b"%d" % at for at in range(10)]


async def test_a_server_that_forgets_its_scripts_all_the_time_stops_nobody(opened: Opened, server: Server) -> None:
    store = await opened(server.address())
    claim = await claimed(store)
    for at in range(30):
        if at % 3 == 0:
            server.ask("SCRIPT", "FLUSH")
        assert (await store.commit(appending(claim.token, at, b"x"))).length == at + 1


async def test_calls_under_way_when_the_server_dies_hear_it_and_the_store_goes_on(
    opened: Opened, server: Server
) -> None:
    store = await opened(server.address())
    claim = await claimed(store)
    os.kill(server.process.pid, signal.SIGSTOP)
    under_way = [store.commit(appending(claim.token, at, b"x")) for at in range(3)]
    await asyncio.sleep(0)
    server.kill()
    told = await asyncio.gather(*under_way, return_exceptions=True)
    assert [type(error) for error in told] == [StoreUnavailable] * 3
    assert all(str(server.socket) in str(error) for error in told)
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        await store.read(claim.token.run_id)
    server.start()

    async def is_back() -> bool:
        try:
            return await store.read(claim.token.run_id) is not None
        except StoreUnavailable:
            return False

    await until(is_back)
    standing = len(await journal_of(store, claim.token.run_id))
    assert (await store.commit(appending(claim.token, standing, b"y"))).append is Append.done


async def test_a_server_that_says_nothing_is_given_up_in_time(opened: Opened, server: Server) -> None:
    store = await opened(server.address())
    hasty = await opened(server.address(), replace(QUICK, answer_s=0.3))
    os.kill(server.process.pid, signal.SIGSTOP)
    with pytest.raises(StoreUnavailable, match="no answer for"):
        await hasty.submit(new_run())
    with pytest.raises(StoreUnavailable, match="does not answer"):
        await ValkeyStore(server.address(), None, replace(QUICK, connect_s=0.2)).open()
    os.kill(server.process.pid, signal.SIGCONT)
    assert (await store.submit(new_run())).run_id


async def test_ping_waits_no_longer_than_it_says(opened: Opened, server: Server) -> None:
    store = await opened(server.address(), replace(QUICK, ping_s=1, answer_s=30))
    await store.ping()
    os.kill(server.process.pid, signal.SIGSTOP)
    with pytest.raises(StoreUnavailable, match="no answer in 1 s"):
        await store.ping()
    os.kill(server.process.pid, signal.SIGCONT)
    await store.ping()


async def test_a_loop_that_was_blocked_longer_than_patience_finds_its_answers(opened: Opened, address: Address) -> None:
    store = await opened(address, replace(QUICK, answer_s=0.5))
    answer = store.submit(new_run())
    await asyncio.sleep(0)
    threading.Event().wait(1)  # what a step does that should not
    assert (await answer).run_id


async def test_a_loop_that_is_blocked_by_the_first_answer_finds_the_others(opened: Opened, address: Address) -> None:
    store = await opened(address, replace(QUICK, answer_s=0.5))
    run_id = (await store.submit(new_run())).run_id
    calls = [asyncio.ensure_future(store.read(run_id)) for _ in range(50)]
    calls[0].add_done_callback(lambda _: bool(threading.Event().wait(1)))
    assert [record is not None for record in await asyncio.gather(*calls)] == [True] * 50


async def test_an_answer_reaches_who_asked_however_many_left(opened: Opened, address: Address) -> None:
    store = await opened(address)
    runs = [new_run() for _ in range(300)]
    asked = [asyncio.ensure_future(store.submit(run)) for run in runs]
    for leaver in asked[::2]:
        leaver.cancel()
    await asyncio.sleep(0)
    stayed = await asyncio.gather(*asked[1::2])
    assert [answer.run_id for answer in stayed] == [run.run_id for run in runs[1::2]]
    assert sum((await store.counts()).values()) == 300  # who leaves takes his future along, not his run


async def test_fifty_calls_of_one_turn_go_out_in_one_write(opened: Opened, server: Server) -> None:
    store = await opened(server.address())
    claim = await claimed(store)

    def reads() -> int:
        info = server.ask("INFO", "stats")
        assert isinstance(info, bytes)
        return int(info.split(b"total_reads_processed:")[1].split()[0])

    before = reads()
    await asyncio.gather(*[store.commit(appending(claim.token, at, b"x")) for at in range(50)])
    assert reads() - before < 10  # two of them are this question's


async def test_who_has_an_answer_goes_on_before_all_have_one(opened: Opened, address: Address) -> None:
    """Or fifty runs that begin together would do every step together, and all of them wait for each."""
    store = await opened(address)
    run_id = (await store.submit(new_run())).run_id
    went_on: list[int] = []
    calls = [asyncio.ensure_future(store.read(run_id)) for _ in range(50)]

    async def go_on(number: int) -> None:
        await calls[number]
        went_on.append(number)
        if number == 0:
            assert not calls[-1].done()

    await asyncio.gather(*[go_on(number) for number in range(50)])
    assert went_on == list(range(50))


async def test_answers_that_came_before_the_end_of_the_connection_are_given(opened: Opened, server: Server) -> None:
    store = await opened(server.address())
    run_id = (await store.submit(new_run())).run_id
    calls = [asyncio.ensure_future(store.read(run_id)) for _ in range(50)]
    await asyncio.sleep(0)  # they are called, and go out at the end of this turn
    await asyncio.sleep(0)
    server.ask("PING")  # all that was sent before is answered
    server.kill()
    assert [record is not None for record in await asyncio.gather(*calls)] == [True] * 50


async def test_a_reply_larger_than_any_buffer_comes_whole(opened: Opened, address: Address) -> None:
    store = await opened(address)
    claim = await claimed(store)
    big = os.urandom(3_000_000)
    await store.commit(appending(claim.token, 0, big))
    assert await journal_of(store, claim.token.run_id) == [big]
    await store.release(Release(token=claim.token, status=RunStatus.queued, ready=True))
    (again,) = await store.claim(request())
    assert again.journal == (big,)


async def test_a_memory_that_is_full_stops_submits_and_lets_runs_end(opened: Opened, server: Server) -> None:
    store = await opened(server.address())
    claim = await claimed(store)
    server.ask("CONFIG", "SET", "maxmemory", "1mb")
    with pytest.raises(StoreUnavailable, match="maxmemory"):
        await store.submit(new_run(input_=b"x" * 1_000_000))
    released = await store.release(Release(token=claim.token, status=RunStatus.queued, ready=True))
    assert released
    server.ask("CONFIG", "SET", "maxmemory", "0")
    assert audit(server.address()) == []


async def test_a_primary_that_became_a_replica_is_left(opened: Opened, server: Server) -> None:
    store = await opened(server.address())
    server.ask("REPLICAOF", "127.0.0.1", "1")
    with pytest.raises(StoreUnavailable, match="replica"):
        await store.submit(new_run())
    server.ask("REPLICAOF", "NO", "ONE")
    assert (await store.submit(new_run())).run_id


@pytest.mark.parametrize("kept", [True, False])
async def test_a_server_killed_and_started_again_has_what_it_keeps(opened: Opened, *, kept: bool) -> None:
    server = Server(*(SURE if kept else ("--appendonly", "no", "--save", "3600 1")))
    try:
        store = await opened(server.address())
        run = new_run()
        await store.submit(run)
        server.kill()
        server.start()

        async def answers() -> bool:
            try:
                await store.read(run.run_id)
            except StoreUnavailable:
                return False
            return True

        await until(answers)
        assert (await store.read(run.run_id) is not None) is kept
        assert (await store.submit(new_run())).run_id
    finally:
        server.stop()
