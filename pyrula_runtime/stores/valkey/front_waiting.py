"""The verbs of waiting led to the shards they are about: runs where they live, schedules and events in the first."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable

from pyrula_runtime.core.status import Moves
from pyrula_runtime.stores import protocol as p
from pyrula_runtime.stores.valkey.dues import Dues
from pyrula_runtime.stores.valkey.layout import Layout
from pyrula_runtime.stores.valkey.places import FIRST, shard_of_run
from pyrula_runtime.stores.valkey.shard import Shard


class FrontWaiting:
    """The verbs by which runs wait and strike others, of a store of several shards."""

    dues: Dues
    _layout: Layout

    def shard(self, number: int) -> Shard:
        """The shard of this number."""
        raise NotImplementedError

    async def _carry_with(self, number: int, effects: Iterable[p.Effect], written: Awaitable[bool]) -> bool:
        """Once this is written, see to what of it strikes other shards, and answer then."""
        raise NotImplementedError

    def deliver(self, message: p.Message, moves: Moves) -> Awaitable[p.Delivery]:
        return self.shard(shard_of_run(message.run_id)).deliver(message, moves)

    def read_inbox(self, run_id: str, after_seq: int) -> Awaitable[tuple[p.Received, ...]]:
        return self.shard(shard_of_run(run_id)).read_inbox(run_id, after_seq)

    def read_facts(self, run_id: str, after: int, limit: int) -> Awaitable[tuple[p.Fact, ...]]:
        return self.shard(shard_of_run(run_id)).read_facts(run_id, after, limit)

    def wake_due(self, moves: Moves, limit: int) -> Awaitable[p.Woken]:
        return self.shard(FIRST).wake_due(moves, limit) if self._layout.most == 1 else self._wake_around(moves, limit)

    async def _wake_around(self, moves: Moves, limit: int) -> p.Woken:
        dues, woken = self.dues, 0
        nexts: list[int] = []
        for number in dues.to_ask(self._layout.most):
            begun = dues.begin(number)
            told = await self.shard(number).wake_due(moves, limit - woken)
            dues.told(number, begun, told.next_due_ms, told.now_ms)
            woken += told.woken
            if told.next_due_ms is not None:
                nexts.append(told.next_due_ms)
        known_ms = dues.earliest_ms()
        nexts += [] if known_ms is None else [known_ms]
        return p.Woken(woken=woken, next_due_ms=min(nexts, default=None), now_ms=dues.now_ms())

    # once in a namespace

    def put_schedule(self, schedule: p.ScheduleRecord) -> Awaitable[bool]:
        return self.shard(FIRST).put_schedule(schedule)

    def schedules(self, *, due_only: bool = False) -> Awaitable[p.Schedules]:
        return self.shard(FIRST).schedules(due_only=due_only)

    def fire(self, firing: p.Firing) -> Awaitable[bool]:
        return self._carry_with(FIRST, firing.effects, self.shard(FIRST).fire(firing))

    def drop_schedule(self, schedule_id: str) -> Awaitable[bool]:
        return self.shard(FIRST).drop_schedule(schedule_id)

    def subscribe(self, workflow: str, version: str | None, names: frozenset[str]) -> Awaitable[None]:
        return self.shard(FIRST).subscribe(workflow, version, names)

    def emit(self, event: p.Event) -> Awaitable[p.Emission]:
        return self.shard(FIRST).emit(event)

    def events_pending(self, workflows: frozenset[str] | None, limit: int) -> Awaitable[tuple[p.PendingEvent, ...]]:
        return self.shard(FIRST).events_pending(workflows, limit)

    def settle_event(self, event_id: str, workflow: str, run: p.NewRun | None) -> Awaitable[bool]:
        comes = () if run is None else (p.SubmitRun(run=run),)
        return self._carry_with(FIRST, comes, self.shard(FIRST).settle_event(event_id, workflow, run))
