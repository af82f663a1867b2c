"""The verbs of waiting on a server, until their scripts are there: each says so before anything is sent."""

from __future__ import annotations

import asyncio

from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.core.status import Moves
from pyrula_runtime.stores import protocol as p


def _refuse(what: str) -> UsageError:
    return UsageError(f"a valkey:// store cannot {what} yet; keep such runs in a sqlite:// store")


class WithoutWaiting:
    """What a Valkey store cannot do yet."""

    def read_inbox(self, run_id: str, after_seq: int) -> asyncio.Future[tuple[p.Received, ...]]:
        raise _refuse("read an inbox")

    def wake_due(self, moves: Moves, limit: int) -> asyncio.Future[p.Woken]:
        raise _refuse("wake runs at a time")

    def read_facts(self, run_id: str, after: int, limit: int) -> asyncio.Future[tuple[p.Fact, ...]]:
        raise _refuse("read facts")

    def put_schedule(self, schedule: p.ScheduleRecord) -> asyncio.Future[bool]:
        raise _refuse("keep schedules")

    def schedules(self, *, due_only: bool = False) -> asyncio.Future[p.Schedules]:
        raise _refuse("keep schedules")

    def fire(self, firing: p.Firing) -> asyncio.Future[bool]:
        raise _refuse("keep schedules")

    def drop_schedule(self, schedule_id: str) -> asyncio.Future[bool]:
        raise _refuse("keep schedules")

    def subscribe(self, workflow: str, version: str | None, names: frozenset[str]) -> asyncio.Future[None]:
        raise _refuse("keep events")

    def emit(self, event: p.Event) -> asyncio.Future[p.Emission]:
        raise _refuse("keep events")

    def events_pending(
        self, workflows: frozenset[str] | None, limit: int
    ) -> asyncio.Future[tuple[p.PendingEvent, ...]]:
        raise _refuse("keep events")

    def settle_event(self, event_id: str, workflow: str, run: p.NewRun | None) -> asyncio.Future[bool]:
        raise _refuse("keep events")
