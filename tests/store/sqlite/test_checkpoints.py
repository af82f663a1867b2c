"""The log is folded back in time and cut when it has grown long, whoever reads meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from pyrula_runtime.stores.protocol import Append
from pyrula_runtime.stores.sqlite.checks import check
from pyrula_runtime.stores.sqlite.store import SqliteStore
from tests.store.samples import appending, claimed
from tests.store.sites import SMALL

Opened = Callable[..., Awaitable[SqliteStore]]
OFTEN = replace(SMALL, checkpoint_pages=16)
LIMIT = 64 * 4096


@pytest.fixture
def wal(path: Path) -> Path:
    return path.with_name("store.db-wal")


async def write(store: SqliteStore, megabytes: int) -> None:
    claim = await claimed(store)
    for at in range(megabytes * 10):
        assert (await store.commit(appending(claim.token, at, b"x" * 100_000))).append is Append.done
    await store.ping()  # the checkpoint after the last commit is over


async def test_the_log_is_folded_back_while_it_is_written(opened: Opened, path: Path, wal: Path) -> None:
    await write(await opened(OFTEN), 4)
    assert path.stat().st_size > 3_000_000
    assert wal.stat().st_size < 1_000_000


async def test_without_its_time_having_come_nothing_is_folded(opened: Opened, path: Path) -> None:
    store = await opened(SMALL)
    size = path.stat().st_size
    await write(store, 1)
    await store.close()
    assert path.stat().st_size == size


async def test_a_log_kept_long_by_a_reader_is_cut_when_the_reader_has_gone(
    opened: Opened, path: Path, wal: Path
) -> None:
    store = await opened(replace(OFTEN, truncate_bytes=LIMIT))
    reader = apsw.Connection(str(path))
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM run").fetchall()
    await write(store, 2)  # nobody fails because of the reader
    assert wal.stat().st_size > 2_000_000
    reader.close()
    await write(store, 1)
    assert wal.stat().st_size < 1_000_000
    assert check(path) == []
