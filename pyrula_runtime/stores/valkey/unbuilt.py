"""Waiting on a server, until its scripts are there: what asks for it is refused before anything is sent.

That goes for the verbs, and for what other verbs are asked beside their own business: a priority or a later start that
was silently ignored would be a promise broken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.core.status import Moves
from pyrula_runtime.stores import protocol as p


def _refuse(what: str) -> UsageError:
    return UsageError(f"a valkey:// store cannot {what} yet; keep such runs in a sqlite:// store")


# what belongs to waiting in values that have more to say, and how a person would call it
_BEYOND: Mapping[type[Any], Mapping[str, str]] = {
    p.NewRun: {
        "priority": "order runs by priority",
        "start_at_ms": "start a run later",
        "parent": "keep a run as the child of another",
        "schedule_id": "keep schedules",
        "journal": "begin a run with a journal",
        "generation": "begin a run with a journal",
    },
    p.Commit: {
        "consumed": "give messages to a run",
        "shown": "keep what a run shows",
        "facts": "keep facts",
        "effects": "let a commit strike other runs",
    },
    p.Ending: {"wait": "let a run wait", "again": "let a run go on as new"},
    p.Release: {"effects": "let a release strike other runs"},
    p.Amendment: {"due_ms": "let a run wait", "effects": "let an amendment strike other runs"},
    p.RunQuery: {"parent": "list the children of a run", "schedule_id": "list the runs of a schedule"},
}

_ASKS = {
    kind: tuple((each.name, each.default, names[each.name]) for each in fields(kind) if each.name in names)
    for kind, names in _BEYOND.items()
}


def refuse_beyond(asked: object) -> None:
    """Raise UsageError if this asks for what a Valkey store cannot do yet."""
    for name, default, what in _ASKS[type(asked)]:
        if getattr(asked, name) != default:
            raise _refuse(what)


class WithoutWaiting:
    """What a Valkey store cannot do yet."""

    async def pins(self) -> Mapping[tuple[str, str], int]:
        return {}  # nothing is refused: whoever counts runs has no other way to go on

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
