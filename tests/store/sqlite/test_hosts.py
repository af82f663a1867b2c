"""One host at a time, and what a reboot does to locks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pyrula_runtime.core.errors import StoreRefused
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.sqlite.backup import backup
from pyrula_runtime.stores.sqlite.hosts import Host, this_host
from pyrula_runtime.stores.sqlite.store import SqliteStore
from tests.store.samples import TTL_MS, claimed, request, worker
from tests.store.sites import SMALL

Opened = Callable[..., Awaitable[SqliteStore]]
HERE = Host(boot_id="boot-1", machine_id="machine", name="here")
REBOOTED = replace(HERE, boot_id="boot-2")
ELSEWHERE = Host(boot_id="boot-3", machine_id="", name="elsewhere")


def on(host: Host) -> object:
    return replace(SMALL, host=host, host_watch_s=1.0)


def test_this_host_is_the_same_every_time() -> None:
    assert this_host() == this_host()
    assert this_host().boot_id


async def test_a_reboot_ends_every_lock_at_once(opened: Opened) -> None:
    before = await opened(on(HERE))
    claim = await claimed(before)
    await before.beat(worker("w-1"), 60_000)
    await before.close()
    after = await opened(on(REBOOTED), ManualClock())  # monotonic time begins anew, far below the old lock's end
    lapsed = await after.reclaim_lapsed(RunStatus.queued, TTL_MS, 10)
    assert (lapsed.run_ids, lapsed.grace) == ((claim.token.run_id,), False)
    assert await after.workers() == ()
    (again,) = await after.claim(request())
    assert again.token.fence == 2


async def test_the_same_boot_in_another_container_shares_the_store(opened: Opened) -> None:
    first = await opened(on(HERE))
    claim = await claimed(first)
    second = await opened(on(replace(HERE, machine_id="", name="container")))
    assert [held.token for held in await second.holdings("w-1")] == [claim.token]
    assert (await second.reclaim_lapsed(RunStatus.queued, TTL_MS, 10)).run_ids == ()


async def test_a_second_host_is_refused_while_the_first_is_alive(opened: Opened) -> None:
    first = await opened(on(HERE))
    await first.claim(request(ttl_ms=30))  # signs of life every 10 ms
    with pytest.raises(StoreRefused, match=r"in use by host 'here'.*stop pyrula there"):
        await opened(on(ELSEWHERE))
    await first.ping()


async def test_a_silent_host_is_succeeded_and_its_locks_end(opened: Opened) -> None:
    first = await opened(on(HERE))
    claim = await claimed(first)
    await first.close()
    second = await opened(on(ELSEWHERE), ManualClock())
    assert (await second.reclaim_lapsed(RunStatus.queued, TTL_MS, 10)).run_ids == (claim.token.run_id,)


async def test_siblings_that_take_over_together_do_it_once(opened: Opened) -> None:
    first = await opened(on(HERE))
    await claimed(first)
    await first.close()
    clock = ManualClock()
    siblings = await asyncio.gather(*(opened(on(ELSEWHERE), clock) for _ in range(2)))
    assert len((await siblings[0].reclaim_lapsed(RunStatus.queued, TTL_MS, 10)).run_ids) == 1


async def test_a_restored_backup_belongs_to_nobody(opened: Opened, path: Path, tmp_path: Path) -> None:
    first = await opened(on(HERE))
    claim = await claimed(first)
    backup(path, tmp_path / "copy.db")
    # no watch, no refusal, although the first host is alive and well
    restored = await opened(on(ELSEWHERE), ManualClock(), at=tmp_path / "copy.db")
    assert (await restored.reclaim_lapsed(RunStatus.queued, TTL_MS, 10)).run_ids == (claim.token.run_id,)
