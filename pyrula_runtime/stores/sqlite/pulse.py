"""The store's pulse: when somebody last wrote, and how long nobody did.

Two questions are answered by it. Is another host using this file? (The counter moves.) And: did locks lapse because
their holders died, or because nobody could reach the store? Any write of any process is a sign of life, and a process
whose store is open gives one at least every third of a lock's life. A silence longer than two thirds is therefore an
outage (full disk, suspended VM, nobody there), and then the next scan grants every lock a life instead of reclaiming.
The silence is kept until a scan has heard of it, since after an outage a renewal may well come before the scan.
"""

from __future__ import annotations

import apsw

from pyrula_runtime.core.locks import outage_grace
from pyrula_runtime.stores.sqlite.queries import named
from pyrula_runtime.stores.sqlite.transaction import Tx, rows

SQL = named("pulse")
IDLE_MS = 10_000  # an idle process writes its sign of life at least this often, and each third of a lock's life
BUSY = 10  # and a busy one at most so many times as often: its last sign is then no reason to skip the next for long


def beat(tx: Tx) -> None:
    """Give a sign of life."""
    tx.rows(SQL["beat"], tx.mono_ms)


def was_silent(tx: Tx, lock_ttl_ms: int) -> bool:
    """Whether there was an outage since the last scan; the answer is given once."""
    beat(tx)
    ((silence_ms,),) = tx.rows(SQL["silence"])
    tx.rows(SQL["heard"])
    return outage_grace(silence_ms, 0, lock_ttl_ms)


def quiet_ms(db: apsw.Connection, mono_ms: int) -> int:
    """How long nobody has given a sign of life."""
    ((alive_ms,),) = rows(db, SQL["alive"])
    return mono_ms - int(alive_ms)
