"""One host at a time: who uses the file, and what happens to locks when that changes.

Two kernels share neither memory nor record locks, so two hosts on one file would destroy it. The file carries the boot
id of the host that uses it; all containers on one kernel have the same. Another boot id on the same machine means that
the host was restarted. Another machine is watched for longer than three of its signs of life: if there is one, this
host is refused; if not, it takes over. Taking over ends every lock, for lock life is measured on the clock of one boot.
"""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass
from pathlib import Path

import apsw

from pyrula_runtime.core.errors import StoreRefused
from pyrula_runtime.stores.sqlite.queries import named
from pyrula_runtime.stores.sqlite.transaction import rows

SQL = named("hosts")
_log = logging.getLogger(__name__)
_LOOK_S = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What tells this boot of this machine from others. `machine_id` is empty where it proves nothing."""

    boot_id: str
    machine_id: str
    name: str


def _content(path: str) -> str:
    try:
        return Path(path).read_text("ascii").strip()
    except OSError:
        return ""


def this_host() -> Host:
    """The host this process runs on."""
    name = os.uname().nodename
    # without a boot id (not Linux) the name at least tells machines apart; lock life then spans a restart
    boot_id = _content("/proc/sys/kernel/random/boot_id") or f"host-{name}"
    return Host(boot_id=boot_id, machine_id=_content("/etc/machine-id"), name=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """Which host the file says uses it, and how far that one has counted its signs of life."""

    host: Host
    beat: int


def seat_of(db: apsw.Connection) -> Seat | None:
    """Who uses the file; None if nobody has yet."""
    for boot_id, machine_id, name, beat in rows(db, SQL["seat"]):
        return Seat(host=Host(boot_id=boot_id, machine_id=machine_id, name=name), beat=beat)
    return None


def sit_down(db: apsw.Connection, host: Host, now_ms: int) -> Seat | None:
    """Take the file for this host, under the write lock; or return the stranger who has to be watched first."""
    seat = seat_of(db)
    if seat is None:
        db.execute(SQL["first"], (host.boot_id, host.machine_id, host.name, now_ms))
        return None
    if seat.host.boot_id == host.boot_id:
        return None
    if host.machine_id and seat.host.machine_id == host.machine_id:
        _take_over(db, host, now_ms)
        return None
    return seat


def watch(db: apsw.Connection, stranger: Seat, watch_s: float) -> None:
    """Wait for a sign of life of the other host; StoreRefused if it comes."""
    _log.warning("store is marked as used by host %s; watching it for %.0f s", stranger.host.name, watch_s)
    deadline = time.monotonic() + watch_s
    while time.monotonic() < deadline:
        time.sleep(_LOOK_S)
        seat = seat_of(db)
        if seat is not None and seat.host == stranger.host and seat.beat != stranger.beat:
            raise StoreRefused(
                f"store {db.filename} is in use by host {stranger.host.name!r}, and one SQLite file serves one host; "
                f"stop pyrula there, or use a valkey:// store for several hosts"
            )


def inherit(db: apsw.Connection, stranger: Seat, host: Host, now_ms: int) -> None:
    """Take over from a host that gave no sign of life, under the write lock, unless a sibling has done so."""
    if seat_of(db) == stranger:
        _take_over(db, host, now_ms)


def vacate(db: apsw.Connection) -> None:
    """Make a copy of a store nobody's."""
    with db:
        db.execute(SQL["leave"])
        db.execute(SQL["end_locks"])
        db.execute(SQL["forget_workers"])


def _take_over(db: apsw.Connection, host: Host, now_ms: int) -> None:
    _log.warning("host %s (boot %s) takes the store over; every lock in it has ended", host.name, host.boot_id)
    with db:
        db.execute(SQL["take_over"], (host.boot_id, host.machine_id, host.name, now_ms))
        db.execute(SQL["end_locks"])
        db.execute(SQL["forget_workers"])
