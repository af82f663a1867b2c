"""Schedules as a store keeps them: an opaque record, the time it fires next, a revision: one host alone fires it."""

from __future__ import annotations

from dataclasses import dataclass

from pyrula_runtime.stores.effects import Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRecord:
    """A schedule. `rev` grows with each write; `next_ms` None means that it does not fire (paused, or over)."""

    schedule_id: str
    rev: int
    record: bytes
    next_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedules:
    """Answer of `schedules`, in order of their ids. Times are of the store's clock, `next_ms` the earliest of all."""

    records: tuple[ScheduleRecord, ...]
    next_ms: int | None
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """Fire a schedule that is still at `rev`: its new record and next time, and the runs that come of it."""

    schedule_id: str
    rev: int
    record: bytes
    next_ms: int | None
    effects: tuple[Effect, ...] = ()
