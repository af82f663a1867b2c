"""The verbs by which runs wait and strike others, at one tag: messages, due times, facts, schedules and events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from pyrula_runtime.core.status import Moves
from pyrula_runtime.stores import protocol as p
from pyrula_runtime.stores.valkey import answers, requests
from pyrula_runtime.stores.valkey.connection import Argument

# runs that go on in one call, and deferred events that are taken over: a call keeps everybody else waiting
MOST_AT_ONCE = 500


class WithWaiting:
    """The verbs."""

    _effects: requests.Effects

    def _run(self, name: str, *args: Argument, told: Callable[[Any], Any] = bool) -> asyncio.Future[Any]:
        raise NotImplementedError

    def deliver(self, message: p.Message, moves: Moves) -> asyncio.Future[p.Delivery]:
        return self._run("deliver", *requests.deliver(message, moves), told=lambda said: p.Delivery(said.decode()))

    def read_inbox(self, run_id: str, after_seq: int) -> asyncio.Future[tuple[p.Received, ...]]:
        return self._run("read_inbox", run_id, after_seq, told=answers.received)

    def wake_due(self, moves: Moves, limit: int) -> asyncio.Future[p.Woken]:
        return self._run("wake_due", min(limit, MOST_AT_ONCE), *requests.led(moves), told=answers.woken)

    def read_facts(self, run_id: str, after: int, limit: int) -> asyncio.Future[tuple[p.Fact, ...]]:
        return self._run("read_facts", run_id, after, limit, told=partial(answers.facts, after))

    def put_schedule(self, schedule: p.ScheduleRecord) -> asyncio.Future[bool]:
        return self._run("put_schedule", *requests.schedule(schedule))

    def schedules(self, *, due_only: bool = False) -> asyncio.Future[p.Schedules]:
        return self._run("schedules", int(due_only), told=answers.schedules)

    def fire(self, firing: p.Firing) -> asyncio.Future[bool]:
        return self._run("fire", *requests.schedule(firing), *self._effects(firing.effects))

    def drop_schedule(self, schedule_id: str) -> asyncio.Future[bool]:
        return self._run("drop_schedule", schedule_id)

    async def subscribe(self, workflow: str, version: str | None, names: frozenset[str]) -> None:
        while await self._run("subscribe", workflow, version or "", MOST_AT_ONCE, *sorted(names)):
            pass  # some deferred events at a time; who is interrupted goes on when it subscribes again

    def emit(self, event: p.Event) -> asyncio.Future[p.Emission]:
        return self._run("emit", *requests.emit(event), told=lambda said: p.Emission(said.decode()))

    def events_pending(
        self, workflows: frozenset[str] | None, limit: int
    ) -> asyncio.Future[tuple[p.PendingEvent, ...]]:
        of = ("*",) if workflows is None else sorted(workflows)
        return self._run("events_pending", limit, *of, told=partial(answers.pending, limit))

    def settle_event(self, event_id: str, workflow: str, run: p.NewRun | None) -> asyncio.Future[bool]:
        comes = () if run is None else (p.SubmitRun(run=run),)
        return self._run("settle_event", event_id, workflow, *self._effects(comes))
