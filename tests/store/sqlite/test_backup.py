"""Backup and check: a copy is whole or not there, and a file that contradicts itself is told sentence by sentence."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from pyrula_runtime.core.errors import StoreRefused, StoreUnavailable, UsageError
from pyrula_runtime.stores.sqlite.backup import backup
from pyrula_runtime.stores.sqlite.checks import check
from pyrula_runtime.stores.sqlite.store import SqliteStore
from tests.store.samples import COMPLETED, appending, claimed, journal_of, new_run

Opened = Callable[..., Awaitable[SqliteStore]]


async def test_a_backup_during_writes_is_one_consistent_state(
    store: SqliteStore, opened: Opened, path: Path, tmp_path: Path
) -> None:
    claim = await claimed(store)
    stop = asyncio.Event()

    async def write() -> int:
        at = 0
        while not stop.is_set():
            await store.commit(appending(claim.token, at, b"x" * 500))
            at += 1
        return at

    writing = asyncio.create_task(write())
    await asyncio.to_thread(backup, path, tmp_path / "copy.db")
    stop.set()
    written = await writing
    assert check(tmp_path / "copy.db") == []
    copied = await opened(at=tmp_path / "copy.db")
    assert 0 <= len(await journal_of(copied, claim.token.run_id)) <= written


async def test_an_existing_target_is_left_alone(store: SqliteStore, path: Path, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("precious")
    with pytest.raises(UsageError, match="exists already"):
        backup(path, tmp_path / "there")
    assert (tmp_path / "there").read_text() == "precious"


async def test_a_backup_that_fails_leaves_nothing(store: SqliteStore, path: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="cannot be written"):
        backup(path, tmp_path / "nowhere" / "copy.db")
    with pytest.raises(UsageError, match="no store at"):
        backup(tmp_path / "none.db", tmp_path / "copy.db")
    (tmp_path / "diary").write_bytes(b"dear diary, " * 1000)
    with pytest.raises(StoreRefused, match="not an SQLite file"):
        backup(tmp_path / "diary", tmp_path / "copy.db")
    assert [file.name for file in tmp_path.iterdir() if "copy" in file.name] == []


async def test_a_sound_store_has_no_problems(store: SqliteStore, path: Path) -> None:
    claim = await claimed(store)
    await store.commit(appending(claim.token, 0, b"a", b"b", ending=COMPLETED))
    await claimed(store)
    await store.submit(new_run())
    assert check(path) == []


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("UPDATE run SET ready = 1", "both claimable and held"),
        ("UPDATE run SET lock_until = NULL", "holder without a lock"),
        ("UPDATE run SET status = 'completed'", "completed, yet claimable or held"),
        ("DELETE FROM journal WHERE seq = 0", "says 2 journal entries of 4 bytes, there are 1 up to position 1"),
        ("UPDATE run SET journal_len = 3", "says 3 journal entries"),
        ("UPDATE run SET journal_bytes = 5", "says 2 journal entries of 5 bytes"),
        ("UPDATE run SET inbox_len = 1", "says 1 messages, there are 0"),
        ("DELETE FROM document", "has lost its input"),
        ("DELETE FROM run", "journal entries of a run that does not exist"),
    ],
)
async def test_a_contradiction_is_found(store: SqliteStore, path: Path, statement: str, says: str) -> None:
    claim = await claimed(store)
    await store.commit(appending(claim.token, 0, b"aa", b"bb"))
    await store._write(lambda tx: tx.rows(statement))
    assert any(says in problem for problem in check(path)), check(path)


def test_what_is_no_store_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "diary").write_bytes(b"dear diary, " * 1000)
    assert "is empty" in check(tmp_path / "empty")[0]
    assert "not an SQLite file" in check(tmp_path / "diary")[0]
    assert "cannot be opened" in check(tmp_path / "none")[0]
