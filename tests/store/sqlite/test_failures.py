"""Full, read-only, damaged, replaced: nothing acknowledged is lost, and the message says what to do."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from pyrula_runtime.core.errors import StoreCorrupt, StoreUnavailable
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.stores.protocol import Append, Committed, RunQuery
from pyrula_runtime.stores.sqlite import checks, submits
from pyrula_runtime.stores.sqlite.ballast import Ballast
from pyrula_runtime.stores.sqlite.checks import check
from pyrula_runtime.stores.sqlite.hosts import Host
from pyrula_runtime.stores.sqlite.store import SqliteStore
from pyrula_runtime.stores.sqlite.transaction import Tx
from tests.store.samples import COMPLETED, appending, claimed, new_run, request
from tests.store.sites import SMALL

Opened = Callable[..., Awaitable[SqliteStore]]
LARGE = b'"' + b"x" * 200_000 + b'"'


async def no_room(store: SqliteStore) -> None:
    """Let SQLite say from now on that the disk is full, as long as the writer keeps this connection."""
    await store._write(lambda tx: tx.db.pragma("max_page_count", int(tx.db.pragma("page_count"))))


async def turn_read_only(store: SqliteStore) -> None:
    """The same for a file that cannot be written."""
    await store.submit(new_run())  # the sign of life is given: the next transaction has nothing to write by itself
    await store._write(lambda tx: tx.db.pragma("query_only", True), is_alive=False)


async def test_a_full_disk_fails_the_call_and_the_store_goes_on_by_itself(store: SqliteStore, path: Path) -> None:
    kept = new_run()
    await store.submit(kept)
    await no_room(store)
    with pytest.raises(StoreUnavailable, match=r"disk is full.*free some space"):
        await store.submit(new_run(input_=LARGE))
    assert (await store.submit(new_run(input_=LARGE))).submission == "created"
    assert await store.read(kept.run_id) is not None
    assert check(path) == []


async def test_all_calls_of_a_batch_that_did_not_fit_hear_it_and_none_was_half_written(
    store: SqliteStore, path: Path
) -> None:
    await no_room(store)
    calls = [store.submit(new_run(input_=LARGE)) for _ in range(20)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    written = [answer for answer in answers if not isinstance(answer, BaseException)]
    assert any(isinstance(answer, StoreUnavailable) for answer in answers)
    assert sum((await store.counts()).values()) == len(written)
    assert check(path) == []


async def test_the_ballast_lets_what_runs_finish_and_nothing_new_begin(opened: Opened, path: Path) -> None:
    store = await opened(replace(SMALL, ballast_bytes=1_000_000))
    claim = await claimed(store)
    await store.submit(new_run())
    ballast = path.with_name("store.db.ballast")
    assert ballast.stat().st_size == 1_000_000
    os.truncate(ballast, 0)  # as the process does that first meets the full disk
    with pytest.raises(StoreUnavailable, match="no new runs"):
        await store.submit(new_run())
    assert await store.claim(request()) == ()
    with pytest.raises(StoreUnavailable, match="disk is full"):
        await store.ping()
    done = await store.commit(appending(claim.token, 0, b"last", ending=COMPLETED, claim=request()))
    assert (done.append, done.claims) == (Append.done, ())
    record = await store.read(claim.token.run_id)
    assert record is not None
    assert record.status is RunStatus.completed


async def test_a_full_disk_gives_the_ballast_up_and_the_call_is_done_after_all(opened: Opened, path: Path) -> None:
    store = await opened(replace(SMALL, ballast_bytes=1_000_000))
    claim = await claimed(store)

    def full_at_first(tx: Tx) -> str:
        if not tx.strained:
            raise apsw.FullError("database or disk is full")
        return "finished"

    assert await store._write(full_at_first) == "finished"
    assert path.with_name("store.db.ballast").stat().st_size == 0
    assert (await store.commit(appending(claim.token, 0, ending=COMPLETED))).append is Append.done


def test_ballast_is_laid_once_and_again_when_it_was_given_up(tmp_path: Path) -> None:
    file = tmp_path / "b"
    Ballast(file, 50_000).lay()
    assert file.stat().st_size == 50_000
    assert Ballast(file, 50_000).give_up()
    assert not Ballast(file, 50_000).give_up()
    assert Ballast(file, 50_000).is_given_up
    Ballast(file, 50_000).lay()
    assert not Ballast(file, 50_000).is_given_up


def test_a_disk_too_small_for_ballast_has_none_and_is_not_strained(tmp_path: Path) -> None:
    ballast = Ballast(tmp_path / "b", 1 << 60)
    ballast.lay()
    assert not (tmp_path / "b").exists()
    assert not ballast.is_given_up
    assert not ballast.give_up()


async def test_a_read_only_file_is_named_as_such_and_the_store_goes_on_by_itself(store: SqliteStore) -> None:
    await turn_read_only(store)
    with pytest.raises(StoreUnavailable, match=r"read-only.*make it writable"):
        await store.submit(new_run())
    await store.submit(new_run())


async def test_after_a_failure_ping_proves_that_a_row_can_be_written(store: SqliteStore) -> None:
    await store.ping()
    await turn_read_only(store)
    with pytest.raises(StoreUnavailable):
        await store.submit(new_run())
    await store.ping()
    ((beat,),) = await store._read(lambda db: db.execute("SELECT beat FROM host").fetchall())
    assert isinstance(beat, int)
    assert beat > 0


async def test_an_unknown_outcome_is_settled_by_the_same_call_again(store: SqliteStore) -> None:
    claim = await claimed(store)
    commit = appending(claim.token, 0, b"a", ending=COMPLETED)

    def answer_lost(tx: Tx) -> None:
        tx.db.execute("COMMIT")
        raise apsw.IOError("disk I/O error")

    lost, done = store._write(answer_lost), store.commit(commit)
    with pytest.raises(StoreUnavailable, match="reading or writing it failed"):
        await lost
    (first,) = await asyncio.gather(done, return_exceptions=True)
    assert first.append is Append.done if isinstance(first, Committed) else isinstance(first, StoreUnavailable)
    assert (await store.commit(commit)).append in (Append.done, Append.duplicate)


async def test_a_broken_call_fails_alone(store: SqliteStore) -> None:
    # one bad row must not wedge its neighbours for ever
    def broken(tx: Tx) -> None:
        submits.submit(tx, new_run(run="half-written"))
        raise ZeroDivisionError("a bug")

    runs = [new_run() for _ in range(10)]
    before = [store.submit(run) for run in runs[:5]]
    bad = store._write(broken)
    bad_sql = store._write(lambda tx: tx.rows("INSERT INTO run (id) VALUES ('x')"))
    after = [store.submit(run) for run in runs[5:]]
    with pytest.raises(ZeroDivisionError):
        await bad
    with pytest.raises(StoreUnavailable):
        await bad_sql
    assert {answer.submission for answer in await asyncio.gather(*before, *after)} == {"created"}
    assert await store.read("half-written") is None


async def test_damage_by_a_power_cut_is_told_at_the_next_start(opened: Opened, path: Path) -> None:
    store = await opened(replace(SMALL, host=Host(boot_id="before", machine_id="m", name="here")))
    await asyncio.gather(*(store.submit(new_run()) for _ in range(50)))
    await store.close()
    overwrite_runs(path)
    rebooted = Host(boot_id="after", machine_id="m", name="here")
    with pytest.raises(StoreCorrupt, match="restore a backup"):
        await opened(replace(SMALL, host=rebooted))


async def test_a_file_too_large_to_be_looked_through_does_not_delay_the_start(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(checks, "_STEPS", 1)
    store = await opened(replace(SMALL, host=Host(boot_id="before", machine_id="m", name="here")))
    await store.submit(new_run())
    await store.close()
    rebooted = await opened(replace(SMALL, host=Host(boot_id="after", machine_id="m", name="here"), glance_s=-1.0))
    assert "too large to be checked at start" in caplog.text
    assert sum((await rebooted.counts()).values()) == 1


def overwrite_runs(path: Path) -> None:
    """Destroy the root page of the table of runs, as a bad disk would."""
    db = apsw.Connection(str(path))
    db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    ((root,),) = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'run'").fetchall()
    db.close()
    with path.open("r+b") as file:
        file.seek((int(str(root)) - 1) * 4096)
        file.write(b"\xff" * 4096)


async def test_damage_stops_all_writes_and_deletes_nothing(opened: Opened, path: Path) -> None:
    store = await opened()
    await asyncio.gather(*(store.submit(new_run()) for _ in range(50)))
    await store.close()
    overwrite_runs(path)
    size = path.stat().st_size
    damaged = await opened()
    for _ in range(2):
        with pytest.raises(StoreCorrupt, match=r"nothing was deleted.*with its -wal and -shm.*restore a backup"):
            await damaged.submit(new_run())
    with pytest.raises(StoreCorrupt):
        await damaged.ping()
    with pytest.raises(StoreCorrupt):
        await damaged.find(RunQuery())
    assert path.stat().st_size == size
    assert check(path) != []


@pytest.mark.parametrize("with_another", [False, True], ids=["removed", "replaced"])
async def test_a_file_that_was_swapped_under_us_is_noticed(
    store: SqliteStore, path: Path, *, with_another: bool
) -> None:
    await store.submit(new_run())
    path.rename(path.with_name("away.db"))
    if with_another:
        path.write_bytes(b"")
    with pytest.raises(StoreUnavailable, match="removed or replaced"):
        await store.submit(new_run())
    path.unlink(missing_ok=True)
    path.with_name("away.db").rename(path)
    await store.submit(new_run())


@pytest.mark.parametrize("suffix", ["-wal", "-shm", ".lock"])
async def test_what_processes_share_was_deleted_under_us(
    store: SqliteStore, opened: Opened, path: Path, suffix: str
) -> None:
    await store.submit(new_run())
    path.with_name(path.name + suffix).rename(path.with_name("away"))
    for _ in range(2):  # for good: this process cannot let go of the old one
        with pytest.raises(StoreUnavailable, match=f"has lost .*{suffix} while it was in use"):
            await store.submit(new_run())
        path.with_name("away").rename(path.with_name(path.name + suffix))
        path.with_name(path.name + suffix).rename(path.with_name("away"))
    path.with_name("away").rename(path.with_name(path.name + suffix))
    await store.close()
    await (await opened()).submit(new_run())


async def test_a_read_that_takes_too_long_is_ended_and_the_next_one_is_answered(opened: Opened) -> None:
    store = await opened(replace(SMALL, read_s=0.05))
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"
    with pytest.raises(StoreUnavailable, match="longer than it may"):
        await store._read(lambda db: db.execute(endless).fetchall())
    assert await store.read("none") is None


async def test_a_bug_in_a_read_is_its_callers_and_the_thread_lives(store: SqliteStore) -> None:
    with pytest.raises(ZeroDivisionError):
        await store._read(lambda db: 1 // 0)
    assert await store.read("none") is None
