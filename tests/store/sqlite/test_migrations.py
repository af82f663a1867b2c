"""Files of earlier versions go on working, with what they held."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import apsw

from pyrula_runtime.core.status import DELIVERY, RunStatus
from pyrula_runtime.engine.codec import load_record
from pyrula_runtime.stores.protocol import Delivery, Message
from pyrula_runtime.stores.sqlite import schema
from pyrula_runtime.stores.sqlite.checks import check
from pyrula_runtime.stores.sqlite.store import SqliteStore
from tests.store.samples import request

Opened = Callable[..., Awaitable[SqliteStore]]
FIRST = Path(schema.__file__).parent / "migrations" / "0001.sql"
RUNS = [
    ("run-1", "queued", 1, "[]"),
    ("run-2", "queued", 1, "[1700000000000,1700000001000]"),
    ("run-3", "paused", 0, "[7]"),
]

MESSAGES = ["m1", "m2"]


def first_version(path: Path) -> None:
    """A file as the first version left it, with runs that have charges."""
    with closing(apsw.Connection(str(path))) as db:
        db.pragma("journal_mode", "wal")
        db.execute(FIRST.read_text("utf-8"))
        for run_id, status, ready, charges in RUNS:
            db.execute(
                "INSERT INTO run (id, workflow, status, ready, charges_ms, digest, created_ms) "
                "VALUES (?1, 'order', ?2, ?3, ?4, 'd', 5)",
                (run_id, status, ready, charges),
            )
            db.execute("INSERT INTO document (run, input) VALUES (?1, ?2)", (db.last_insert_rowid(), b"{}"))
        for seq, message_id in enumerate(MESSAGES):
            db.execute("INSERT INTO inbox VALUES (1, ?1, ?2, 'paid', ?3)", (seq, message_id, b"{}"))
        db.execute("UPDATE run SET inbox_len = ?1 WHERE n = 1", (len(MESSAGES),))
        db.pragma("application_id", schema.APPLICATION_ID)
        db.pragma("user_version", 1)


async def test_a_file_of_the_first_version_keeps_runs_and_charges(opened: Opened, path: Path) -> None:
    first_version(path)
    store = await opened()
    assert check(path) == []
    charges = {
        run_id: [each.at_ms for each in load_record(record.dossier.record).charges]
        for run_id, *_ in RUNS
        if (record := await store.read(run_id)) is not None
    }
    assert charges == {"run-1": [], "run-2": [1700000000000, 1700000001000], "run-3": [7]}
    taken = await store.claim(request())
    assert [claim.token.run_id for claim in taken] == ["run-1", "run-2"]
    assert not any(claim.dossier.is_suspect for claim in taken)
    assert await store.suspects() == 0
    assert (await store.counts())[("order", RunStatus.paused)] == 1


async def test_a_file_of_the_first_version_keeps_messages(opened: Opened, path: Path) -> None:
    first_version(path)
    store = await opened()
    assert [(each.seq, each.message_id) for each in await store.read_inbox("run-1", 0)] == [(1, "m1"), (2, "m2")]
    (claim, _) = await store.claim(request())
    assert [each.message_id for each in claim.inbox] == MESSAGES
    again = Message(run_id="run-1", message_id="m1", name="paid", body=b"{}")
    assert await store.deliver(again, DELIVERY) is Delivery.duplicate


async def test_a_migrated_file_is_as_a_new_one(opened: Opened, path: Path, tmp_path: Path) -> None:
    first_version(path)
    for at in (path, tmp_path / "new.db"):
        await (await opened(at=at)).close()

    def layout(at: Path) -> list[tuple[str, str]]:
        with closing(apsw.Connection(str(at))) as db:
            return [
                (str(name), str(sql)) for name, sql in db.execute("SELECT name, sql FROM sqlite_schema ORDER BY name")
            ]

    assert layout(path) == layout(tmp_path / "new.db")
