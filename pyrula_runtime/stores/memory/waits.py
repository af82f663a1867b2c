"""The verbs of a store in memory for waiting: messages, due times, effects, schedules and events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyrula_runtime.core.status import Moves
from pyrula_runtime.stores import protocol as p
from pyrula_runtime.stores.memory.handle import MemoryHandle, page_of, verb
from pyrula_runtime.stores.memory.world import KeptEvent, Run


class WaitingStore(MemoryHandle):
    """The verbs of `stores.protocol` by which runs wait and strike others."""

    @verb
    def deliver(self, message: p.Message, moves: Moves) -> p.Delivery:
        self.world.sign_of_life()
        return self._deliver(message, moves)

    def _deliver(self, message: p.Message, moves: Moves) -> p.Delivery:
        run = self.world.runs.get(message.run_id)
        if run is None:
            return p.Delivery.unknown
        if any(earlier.message_id == message.message_id for earlier in run.inbox):
            return p.Delivery.duplicate
        if run.status not in moves:
            return p.Delivery.ended
        run.inbox.append(message)
        if run.held:
            self.world.wake(p.Wake.attention)
        elif run.hears is not None and moves[run.status] != run.status:
            run.rev += 1
            self._go_on(run, moves[run.status])
        return p.Delivery.delivered

    @verb
    def read_inbox(self, run_id: str, after_seq: int) -> tuple[p.Received, ...]:
        run = self.world.runs.get(run_id)
        return () if run is None else self._inbox(run, after_seq)

    def _inbox(self, run: Run, after_seq: int = 0) -> tuple[p.Received, ...]:
        left = run.unconsumed(after_seq)
        return tuple(left[: page_of([each.body for each in left], 1_000_000)])

    @verb
    def wake_due(self, moves: Moves, limit: int) -> p.Woken:
        now = self._wall_ms
        waiting = [run for run in self.world.runs.values() if run.due_ms is not None and run.status in moves]
        waiting.sort(key=lambda run: run.due_ms or 0)
        woken = [run for run in waiting if run.due_ms is not None and run.due_ms <= now][: min(limit, 500)]
        if woken:
            self.world.sign_of_life()
        for run in woken:
            run.rev += 1
            self._go_on(run, moves[run.status])
        return p.Woken(
            woken=len(woken),
            next_due_ms=next((run.due_ms for run in waiting if run.due_ms is not None), None),
            now_ms=now,
        )

    @verb
    def read_facts(self, run_id: str, after: int, limit: int) -> tuple[p.Fact, ...]:
        run = self.world.runs.get(run_id)
        return () if run is None else tuple(run.facts[after : after + limit])

    def _perform(self, effects: Sequence[p.Effect]) -> None:
        for effect in effects:
            match effect:
                case p.DeliverTo():
                    self._deliver(effect.message, effect.moves)
                case p.SubmitRun():
                    self._submit(effect.run)
                case p.CancelRun():
                    self._cancel(effect)
                case p.EmitEvent():
                    self._emit(effect.event)

    def _cancel(self, effect: p.CancelRun) -> None:
        run = self.world.runs.get(effect.run_id)
        if run is None or run.cancel_requested or run.status not in effect.moves:
            return
        run.cancel_requested = True
        run.rev += 1
        if run.held:
            self.world.wake(p.Wake.attention)
        elif effect.moves[run.status] != run.status:
            self._go_on(run, effect.moves[run.status])

    # schedules

    def _schedule(self, schedule_id: str) -> p.ScheduleRecord | None:
        kept = self.world.schedules.get(schedule_id)
        return kept if isinstance(kept, p.ScheduleRecord) else None

    @verb
    def put_schedule(self, schedule: p.ScheduleRecord) -> bool:
        self.world.sign_of_life()
        kept = self.world.schedules.get(schedule.schedule_id, 0)
        if schedule.rev == 0 and not isinstance(kept, p.ScheduleRecord):
            self._move(replace(schedule, rev=kept))
            return True
        return self._fire(schedule)

    def _fire(self, to: p.ScheduleRecord | p.Firing) -> bool:
        kept = self._schedule(to.schedule_id)
        if kept is None or kept.rev != to.rev:
            return False
        self._move(replace(kept, record=to.record, next_ms=to.next_ms))
        return True

    def _move(self, schedule: p.ScheduleRecord) -> None:
        self.world.schedules[schedule.schedule_id] = replace(schedule, rev=schedule.rev + 1)
        others = [each.next_ms for each in self._records() if each.schedule_id != schedule.schedule_id]
        if schedule.next_ms is not None and all(each is None or schedule.next_ms < each for each in others):
            self.world.wake(p.Wake.timer)

    def _records(self) -> list[p.ScheduleRecord]:
        return [each for _, each in sorted(self.world.schedules.items()) if isinstance(each, p.ScheduleRecord)]

    @verb
    def fire(self, firing: p.Firing) -> bool:
        self.world.sign_of_life()
        done = self._fire(firing)
        if done:
            self._perform(firing.effects)
        return done

    @verb
    def drop_schedule(self, schedule_id: str) -> bool:
        self.world.sign_of_life()
        kept = self._schedule(schedule_id)
        if kept is None:
            return False
        self.world.schedules[schedule_id] = kept.rev + 1
        return True

    @verb
    def schedules(self, *, due_only: bool = False) -> p.Schedules:
        now, records = self._wall_ms, self._records()
        due = [each for each in records if each.next_ms is not None and each.next_ms <= now]
        return p.Schedules(
            records=tuple(due if due_only else records),
            next_ms=min((each.next_ms for each in records if each.next_ms is not None), default=None),
            now_ms=now,
        )

    # events

    @verb
    def subscribe(self, workflow: str, version: str | None, names: frozenset[str]) -> None:
        if self.world.subscriptions.get((workflow, version), frozenset()) == names:
            return
        self.world.sign_of_life()
        self.world.subscriptions[workflow, version] = names
        for kept in self.world.events.values():
            if kept.left is None and kept.event.name in names:
                kept.left = {workflow}
                self.world.wake(p.Wake.timer)

    @verb
    def emit(self, event: p.Event) -> p.Emission:
        self.world.sign_of_life()
        return self._emit(event)

    def _emit(self, event: p.Event) -> p.Emission:
        if event.event_id in self.world.events:
            return p.Emission.duplicate
        wanted_by = {workflow for (workflow, _), names in self.world.subscriptions.items() if event.name in names}
        self.world.events_told += 1
        kept = KeptEvent(event, self._wall_ms, wanted_by or None, self.world.events_told)
        self.world.events[event.event_id] = kept
        if wanted_by:
            self.world.wake(p.Wake.timer)
        return p.Emission.accepted

    @verb
    def events_pending(
        self, workflows: frozenset[str] | None, limit: int, after: p.PendingEvent | None = None
    ) -> tuple[p.PendingEvent, ...]:
        found = [
            p.PendingEvent(event=kept.event, workflow=workflow or None, emitted_ms=kept.emitted_ms, place=kept.place)
            for kept in self.world.events.values()
            for workflow in sorted({""} if kept.left is None else kept.left)
            if workflows is None or workflow in workflows
        ]
        return tuple([each for each in found if after is None or each.order > after.order][:limit])

    @verb
    def settle_event(self, event_id: str, workflow: str, run: p.NewRun | None) -> bool:
        self.world.sign_of_life()
        kept = self.world.events.get(event_id)
        if kept is None or kept.left is None or workflow not in kept.left:
            return False
        kept.left.remove(workflow)
        if run is not None:
            self._submit(run)
        return True

    def _purge_events(self, limit: int) -> int:
        now = self._wall_ms
        settled = sorted(self.world.events.items(), key=lambda item: item[1].over_ms)
        over = [name for name, kept in settled if kept.left == set() and kept.over_ms <= now][:limit]
        for name in over:
            del self.world.events[name]
        return len(over)
