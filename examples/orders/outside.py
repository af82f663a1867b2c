"""The world outside of the workflow: warehouse, bank, packers, courier and mail, all fake, all in one SQLite file.

They behave as real services do: they take their time, some of the bank's answers never come, and a request that comes
twice under one idempotency key has one effect. What chance decides is decided by the order's id, so an order has the
same fate each time. The file keeps requests and effects apart, so that everybody can see that each happened once.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_SCHEMA = """
    CREATE TABLE IF NOT EXISTS requests (key TEXT NOT NULL, order_id TEXT NOT NULL, what TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS effects (key TEXT PRIMARY KEY, order_id TEXT NOT NULL, what TEXT NOT NULL);
"""
_COUNT = "SELECT what, count(*) FROM {table} WHERE order_id GLOB ? || '*' GROUP BY what ORDER BY min(rowid)"
_one_at_a_time = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How often something was asked for, and how often it was done."""

    requests: int
    effects: int


def ledger() -> Path:
    """The file: ORDERS_LEDGER, else `orders-ledger.db` in the working directory."""
    return Path(os.environ.get("ORDERS_LEDGER") or "orders-ledger.db")


def luck(*words: object) -> float:
    """A number in [0, 1) that belongs to these words."""
    digest = hashlib.sha256("/".join(map(str, words)).encode()).digest()
    return int.from_bytes(digest[:7], "big") / 2**56


def latency_s(order_id: str, what: str) -> float:
    """How long it takes the world to do this: 20 to 120 ms."""
    return 0.02 + 0.1 * luck("latency", order_id, what)


def do(what: str, order_id: str, key: str) -> None:
    """Ask the world for an effect; the same key has it once, however often it is asked for. Blocks."""
    row = (key, order_id, what)
    with _opened() as db:
        db.execute("INSERT INTO requests VALUES (?, ?, ?)", row)
        db.execute("INSERT INTO effects VALUES (?, ?, ?) ON CONFLICT DO NOTHING", row)


def tallies(batch: str) -> dict[str, Tally]:
    """What the world was asked for and did so far for orders whose ids begin with `batch`."""
    with _opened() as db:
        requests = db.execute(_COUNT.format(table="requests"), (batch,)).fetchall()
        effects = dict(db.execute(_COUNT.format(table="effects"), (batch,)))
    return {what: Tally(requests=count, effects=effects.get(what, 0)) for what, count in requests}


def effects_on(order_ids: Iterable[str]) -> dict[str, Counter[str]]:
    """What happened to these orders, and how often."""
    found: dict[str, Counter[str]] = {order_id: Counter() for order_id in order_ids}
    with _opened() as db:
        for order_id, what in db.execute("SELECT order_id, what FROM effects"):
            if order_id in found:
                found[order_id][what] += 1
    return found


@contextmanager
def _opened() -> Iterator[sqlite3.Connection]:
    """The process's one connection, for one thread at a time; what is done with it is committed."""
    with _one_at_a_time:
        db = _connection()
        with db:
            yield db


@cache
def _connection() -> sqlite3.Connection:
    db = sqlite3.connect(ledger(), timeout=30, check_same_thread=False)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = OFF")  # it has to outlive a killed worker, not a power cut
    db.executescript(_SCHEMA)
    return db
