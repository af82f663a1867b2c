"""What is opened, and what is refused with a sentence that says what to do."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

import apsw
import pytest

from pyrula_runtime.core.errors import ConfigurationError, StoreRefused, StoreUnavailable
from pyrula_runtime.stores.opening import open_store
from pyrula_runtime.stores.sqlite import file_system
from pyrula_runtime.stores.sqlite.store import SqliteStore
from pyrula_runtime.stores.sqlite.wakes import Folder
from tests.store.samples import new_run

Opened = Callable[..., Awaitable[SqliteStore]]


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgres://here/db", "scheme 'postgres' is unknown"),
        ("/var/lib/runs.db", "has no scheme"),
        ("sqlite://", "names no file"),
        ("sqlite:///", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("sqlite:////", "names no file"),
        ("sqlite:////tmp/%00.db", "names no file"),
        ("sqlite://host/path.db", "names no file"),
        ("sqlite:////tmp/a.db?mode=ro", "drop what follows '?'"),
    ],
)
def test_an_address_that_cannot_be_served_is_one_clear_sentence(url: str, says: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        open_store(url)
    assert says in str(refused.value)
    assert "secret" not in str(refused.value)
    assert len(refused.value.faults) == 1


async def test_a_link_to_the_file_leads_to_the_same_lock(tmp_path: Path, opened: Opened) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link.db").symlink_to("real/runs.db")
    await opened(at=tmp_path / "link.db")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.db", "real"]
    assert (tmp_path / "real" / "runs.db.lock").exists()


async def test_absolute_relative_and_escaped_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for url in (f"sqlite:///{tmp_path}/abs.db", "sqlite:///rel.db", "sqlite:///with%20space.db"):
        store = open_store(url)
        await store.open()
        await store.close()
    assert {"abs.db", "rel.db", "with space.db"} <= {file.name for file in tmp_path.iterdir()}
    assert open_store("sqlite:///rel.db").identity == open_store(f"sqlite:///{tmp_path}/rel.db").identity


async def test_paths_that_lead_to_one_file_are_one_store(opened: Opened, path: Path, tmp_path: Path) -> None:
    first = await opened()
    (tmp_path / "elsewhere").symlink_to(tmp_path)
    second = await opened(at=tmp_path / "elsewhere" / "store.db")
    assert first.identity == second.identity
    run = new_run()
    await first.submit(run)
    assert await second.read(run.run_id) is not None


async def test_missing_directories_are_made(opened: Opened, tmp_path: Path) -> None:
    await opened(at=tmp_path / "a" / "b" / "store.db")


async def test_a_place_that_cannot_be_is_said_so(opened: Opened, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        await opened(at=tmp_path / "file" / "store.db")
    (tmp_path / "folder.db").mkdir()
    with pytest.raises(StoreUnavailable, match=r"folder\.db"):
        await opened(at=tmp_path / "folder.db")


async def test_a_file_that_is_not_sqlite_is_refused_and_left_alone(opened: Opened, path: Path) -> None:
    path.write_bytes(b"dear diary, " * 1000)
    with pytest.raises(StoreRefused, match="not an SQLite file"):
        await opened()
    assert path.read_bytes() == b"dear diary, " * 1000


async def test_a_database_of_another_program_is_refused_and_left_alone(opened: Opened, path: Path) -> None:
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE recipes (name TEXT)")
    other.commit()
    other.close()
    before = path.read_bytes()
    with pytest.raises(StoreRefused, match="another program"):
        await opened()
    assert path.read_bytes() == before


async def test_a_newer_schema_is_refused(opened: Opened, path: Path) -> None:
    await (await opened()).close()
    db = apsw.Connection(str(path))
    db.pragma("user_version", 99)
    db.close()
    with pytest.raises(StoreRefused, match=r"schema version 99.*newer Pyrula"):
        await opened()


async def test_a_refusal_leaves_nothing_locked(opened: Opened, path: Path) -> None:
    path.write_bytes(b"dear diary, " * 1000)
    with pytest.raises(StoreRefused):
        await opened()
    path.unlink()
    await opened()


async def test_no_other_store_is_made_in_the_place_of_one_that_is_in_use(opened: Opened, path: Path) -> None:
    store = await opened()
    await store.submit(new_run())
    listening = store.listen(lambda _: None)
    away = path.rename(path.with_name("away.db"))
    for _ in range(2):
        with pytest.raises(StoreRefused, match=r"was removed while a process uses it; stop everything that uses it"):
            await opened()
    assert not path.exists()
    away.rename(path)
    assert sum((await (await opened()).counts()).values()) == 1
    path.unlink()
    listening.close()
    await opened()  # nobody would go on working on the old one


async def test_a_store_that_another_process_makes_and_listens_to_meanwhile_was_not_removed(
    opened: Opened, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made_by_then(folder: Folder) -> bool:
        path.touch()
        return True

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(Folder, "has_listeners", made_by_then)
        store = await opened()
    assert await store.counts() == {}


async def test_many_processes_may_make_the_same_new_store(opened: Opened) -> None:
    stores = await asyncio.gather(*(opened() for _ in range(8)))
    await asyncio.gather(*(store.submit(new_run()) for store in stores))
    assert sum((await stores[0].counts()).values()) == 8


@pytest.mark.parametrize(
    ("kind", "name"), [(0x6969, "NFS"), (0x65735546, "virtiofs"), (0x01021997, "9p"), (0xFF534D42, "CIFS")]
)
def test_network_and_fuse_file_systems_are_refused_by_name(kind: int, name: str) -> None:
    # SQLite on virtiofs or NFS was seen to corrupt within a minute
    with pytest.raises(StoreRefused, match=f"{name}.*local disk"):
        file_system.judge(kind, Path("/mnt/store.db"))


def test_an_unknown_file_system_is_refused_with_its_number() -> None:
    with pytest.raises(StoreRefused, match=r"0x12345.*local disk"):
        file_system.judge(0x12345, Path("/mnt/store.db"))


@pytest.mark.parametrize("kind", [0xEF53, 0x58465342, 0x9123683E, 0x2FC12FC1])
def test_local_disks_are_fine(kind: int) -> None:
    assert file_system.judge(kind, Path("/var/store.db")) is None


@pytest.mark.parametrize(("kind", "warns"), [(0x01021994, "memory"), (0x794C7630, "container")])
def test_places_that_forget_are_allowed_with_a_warning(kind: int, warns: str) -> None:
    assert warns in str(file_system.judge(kind, Path("/run/store.db")))


def test_the_kernel_is_asked_about_the_real_place(tmp_path: Path) -> None:
    with pytest.raises(StoreRefused, match="0x9FA0"):
        file_system.check(Path("/proc"))
    file_system.check(tmp_path)
