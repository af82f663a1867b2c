"""One firing of a schedule: what the core decides, as one write on the store."""

from __future__ import annotations

from dataclasses import dataclass

from pyrula_runtime.core.scheduling import Decision, Overlap, ScheduleState, decide
from pyrula_runtime.core.status import CANCELLATION, TERMINAL, RunStatus
from pyrula_runtime.scheduling.records import dump_state, load_state, new_run, timing_of
from pyrula_runtime.stores.protocol import CancelRun, Effect, Firing, RunQuery, ScheduleRecord, Store, SubmitRun

_LIVE = frozenset(RunStatus) - TERMINAL
# how many of the runs that go on a policy wants to know; of more than that the oldest are not cancelled
_MOST_OTHERS = {Overlap.skip: 1, Overlap.buffer_one: 1, Overlap.cancel_other: 1_000, Overlap.allow: 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    """What came of a look at one schedule. `was_due` is whether there was anything to write; another host may have."""

    decision: Decision
    run_ids: tuple[str, ...] = ()
    was_due: bool = False
    written: bool = False


async def others_of(store: Store, schedule_id: str, overlap: Overlap) -> tuple[str, ...]:
    """The runs of a schedule that have not ended, newest first, as far as the policy wants to know them."""
    if not (most := _MOST_OTHERS[overlap]):
        return ()
    found = await store.find(RunQuery(schedule_id=schedule_id, statuses=_LIVE, limit=most))
    return tuple(run.run_id for run in found)


async def fire(store: Store, record: ScheduleRecord, now_ms: int) -> Fired:
    """Fire what is due at this time of the store's. ValueError if a newer version has written the record."""
    state = load_state(record.schedule_id, record.record)
    is_due = record.next_ms is not None and record.next_ms <= now_ms
    if state.declared is None or not (is_due or state.buffered_ms is not None):
        return Fired(decision=Decision(state=state, next_ms=record.next_ms))
    others = await others_of(store, record.schedule_id, state.declared.overlap)
    decision = decide(state, timing_of(state.declared), now_ms, is_busy=bool(others))
    run_ids = tuple(run_id_of(store, state, nominal_ms) for nominal_ms in decision.begins)
    if decision.state == state and decision.next_ms == record.next_ms:
        return Fired(decision=decision)
    firing = Firing(
        schedule_id=record.schedule_id,
        rev=record.rev,
        record=dump_state(decision.state),
        next_ms=decision.next_ms,
        effects=(*cancelled(others if decision.cancels_others else ()), *_begun(state, decision, run_ids)),
    )
    return Fired(decision=decision, run_ids=run_ids, was_due=True, written=await store.fire(firing))


def cancelled(run_ids: tuple[str, ...]) -> tuple[Effect, ...]:
    """The effects that ask these runs to unwind."""
    return tuple(CancelRun(run_id=run_id, moves=CANCELLATION) for run_id in run_ids)


def run_id_of(store: Store, state: ScheduleState, nominal_ms: int) -> str:
    """The id of the run of a nominal time: the same on every host, and in one of all shards."""
    return store.new_run_id(nominal_ms, state.entropy(nominal_ms))


def _begun(state: ScheduleState, decision: Decision, run_ids: tuple[str, ...]) -> tuple[Effect, ...]:
    assert state.declared is not None
    return tuple(
        SubmitRun(run=new_run(state, state.declared, nominal_ms, run_id))
        for nominal_ms, run_id in zip(decision.begins, run_ids, strict=True)
    )
