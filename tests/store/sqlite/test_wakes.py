"""The wake-up path: sockets where they work, looking where they do not, and no leftovers."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from pyrula_runtime.stores.protocol import Wake
from pyrula_runtime.stores.sqlite import wakes
from pyrula_runtime.stores.sqlite.store import SqliteStore
from pyrula_runtime.stores.sqlite.wakes import Folder
from tests.store.samples import new_run, until

Opened = Callable[..., Awaitable[SqliteStore]]


@pytest.fixture
def sockets_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakes, "FALLBACK_S", 3600)


@pytest.fixture
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Folder, kinds: frozenset[Wake]) -> tuple[socket.socket, str]:
        raise OSError("no sockets here")

    monkeypatch.setattr(Folder, "bind", refuse)


async def wait_for_wake(listener: SqliteStore, sender: SqliteStore) -> None:
    rung = asyncio.Event()
    listening = listener.listen(lambda wake: rung.set(), frozenset({Wake.ready}))
    await sender.submit(new_run())
    await asyncio.wait_for(rung.wait(), 20)
    listening.close()


@pytest.mark.usefixtures("sockets_only")
async def test_a_path_too_long_for_a_socket_still_works(opened: Opened, tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120) / "store.db"
    await wait_for_wake(await opened(at=deep), await opened(at=deep))


async def test_where_no_socket_can_be_made_the_store_works_all_the_same(opened: Opened, path: Path) -> None:
    listener = await opened()
    path.with_name("store.db.d").write_text("in the way")
    await wait_for_wake(listener, await opened())


@pytest.mark.usefixtures("no_sockets")
async def test_without_sockets_listeners_look_often(opened: Opened) -> None:
    listener = await opened()
    listening = listener.listen(lambda wake: None)
    assert listening.every_s == wakes.POLLING_S
    listening.close()
    await wait_for_wake(listener, await opened())


async def test_a_listener_looks_less_often_while_nothing_happens(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened()
    listening = store.listen(lambda wake: None)
    assert listening.pause_s == wakes.FALLBACK_S
    monkeypatch.setattr(wakes, "QUIET_S", 0)
    assert listening.pause_s == 3 * wakes.FALLBACK_S
    listening.close()


async def test_a_lost_hint_is_made_up_for(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Folder, "ring", lambda self, wakes: None)
    monkeypatch.setattr(wakes, "FALLBACK_S", 0.02)
    await wait_for_wake(await opened(), await opened())


@pytest.mark.usefixtures("sockets_only")
async def test_sockets_of_the_dead_are_removed_by_whoever_rings(opened: Opened, path: Path) -> None:
    store = await opened()
    listening = store.listen(lambda wake: None)
    dead = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    dead.bind(str(path) + ".d/dead.aer")
    dead.close()
    assert len(os.listdir(str(path) + ".d")) == 2
    await store.submit(new_run())

    async def gone() -> bool:
        return "dead.aer" not in os.listdir(str(path) + ".d")

    await until(gone)
    listening.close()
    assert os.listdir(str(path) + ".d") == []


@pytest.mark.usefixtures("sockets_only")
async def test_a_listener_born_in_the_same_tick_is_not_overlooked(opened: Opened) -> None:
    sender = await opened()
    for _ in range(20):
        await wait_for_wake(await opened(), sender)


async def test_looking_ends_quietly_when_the_store_is_closed(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakes, "FALLBACK_S", 0.001)
    store = await opened()
    listening = store.listen(lambda wake: None)
    await store.close()
    await listening._looking
    listening.close()


@pytest.mark.usefixtures("sockets_only")
async def test_a_listener_that_does_not_read_delays_nobody(opened: Opened) -> None:
    store = await opened()
    heard: list[Wake] = []
    listening = store.listen(heard.append, frozenset({Wake.ready}))
    await asyncio.gather(*(store.submit(new_run()) for _ in range(101)))
    listening.close()
    assert await store.counts() != {}
