"""What a supervisor says of itself: the status document, and whether it is live, ready and well.

All of it is a pure function of the reducer's state and the collected facts. The fields of the document are published:
more may be added, none is ever renamed. Nothing in it is waited for, so what a stuck child or clerk said last is told
with its age, and marked `stale` when that is longer than it should be: a number that does not move is not a number
that is well.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from pyrula_runtime.core import pins
from pyrula_runtime.core.pins import Pin
from pyrula_runtime.core.spans import spoken
from pyrula_runtime.core.standstill import MOVING, Verdict
from pyrula_runtime.wire import Role, pin_of
from pyrula_supervisor import blocks
from pyrula_supervisor.facts import SUPERVISOR, Facts, Noted
from pyrula_supervisor.model import NEVER, NO_SLOT, SLOTTED, Child, Slot, State
from pyrula_supervisor.pace import is_due
from pyrula_supervisor.tables import ChildState, Phase
from pyrula_supervisor.weights import Weight

# workers report every second, the clerk every two: after so long one of them is silent (ms)
STALE_MS = 5_000
CLERK_STALE_MS = 10_000

_QUEUE = ("queued", "running", "waiting", "paused", "suspects", "quarantined")
_CHILD_STATES = {
    ChildState.asked: "starting",
    ChildState.starting: "starting",
    ChildState.ready: "ready",
    ChildState.blocked: "blocked",
    ChildState.draining: "draining",
    ChildState.killed: "stopped",
    ChildState.gone: "stopped",
}
_STANDING = {Verdict.stopped: "is stopped, by a signal or a debugger", Verdict.frozen: "is frozen, by its cgroup"}
_ORDER = (Role.worker, Role.surge, Role.cell, Role.clerk, Role.template)


def document(state: State, facts: Facts, now_ms: int, wall_ms: int) -> dict[str, Any]:
    """The status document; `now_ms` is the monotonic clock."""
    at_ms = state.at(now_ms)
    children = sorted(state.children.values(), key=lambda child: (_ORDER.index(child.role), child.slot, child.asked_ms))
    told = [_child(child, state, facts, now_ms) for child in children if child.role is not Role.template]
    told += [_vacant(slot, state, facts, now_ms) for slot in state.slots if not any(state.of_slot(slot.number))]
    return {
        "supervisor": _supervisor(state, facts, now_ms),
        "children": sorted(told, key=lambda row: (_ORDER.index(row["role"]), row["slot"])),
        "templates": [_template(child, facts, at_ms) for child in children if child.role is Role.template],
        "store": _store(state, facts, at_ms),
        "queue": _queue(state, at_ms),
        "pins": [{"workflow": pin[0], "version": pin[1], "runs": runs} for pin, runs in _pins(state)],
        "incidents": [_incident(noted, wall_ms) for noted in reversed(facts.incidents)],
    }


def _supervisor(state: State, facts: Facts, now_ms: int) -> dict[str, Any]:
    identity = facts.identity
    return {
        "name": identity.name,
        "pid": identity.pid,
        "version": identity.version,
        "state": supervisor_state(state),
        "uptime_s": _seconds(state.at(now_ms) - state.started_ms),
        "generation": state.generation.number,
        "start_method": "template" if state.generation.forks else "spawn",
        "start_method_reason": state.generation.reason,
        "health_url": identity.health_url,
        "procs": state.procs,
        "min_ready": state.policy.min_ready,
        "ready": state.ready_workers,
        "unready": unready(state, now_ms),
        "degraded": degraded(state, now_ms),
        "paused_s": _seconds(state.paused_ms),
        **_weight(facts.weights.get(SUPERVISOR), now_ms),
    }


def supervisor_state(state: State) -> str:
    """One of starting, running, draining, reloading."""
    if state.stopping:
        return "draining"
    if state.phase is Phase.starting:
        return "starting"
    return "running" if state.reload is None else "reloading"


def _child(child: Child, state: State, facts: Facts, now_ms: int) -> dict[str, Any]:
    at_ms, report = state.at(now_ms), child.report
    slot = state.slots[child.slot] if child.role in SLOTTED and 0 <= child.slot < len(state.slots) else None
    is_clerk = child.role is Role.clerk
    return {
        "slot": child.slot,
        "pid": child.pid or None,
        "incarnation": child.incarnation,
        "role": child.role,
        "state": _CHILD_STATES[child.state],
        "generation": child.generation,
        "uptime_s": _seconds(at_ms - child.asked_ms),
        "restarts": facts.clerk_restarts if is_clerk else slot.restarts if slot else 0,
        "turns_running": report.turns_running if report else 0,
        "turns_done": report.turns_done if report else 0,
        "shards": report.shards if report else 0,
        "turns_per_s": facts.rates.get(child.incarnation, 0.0),
        "capacity": report.capacity if report else 0,
        "lane_lag_ms": max(report.lane_lag_ms if report else 0.0, blocks.lasted_ms(child, at_ms)),
        "blocked": _blocked(child, at_ms),
        "stands": _stands(child),
        **_weight(facts.weights.get(child.incarnation), now_ms),
        "last_exit": facts.clerk_last_exit if is_clerk else slot.last_exit if slot else "",
        "cause": child.cause or child.outdated,
        "report_age_s": None if report is None else _seconds(at_ms - child.reported_ms),
        "stale": is_stale(child, at_ms),
        "store_fault": report.store_fault if report else "",
    }


def _vacant(slot: Slot, state: State, facts: Facts, now_ms: int) -> dict[str, Any]:
    """A slot without a process: the row has the fields of any other."""
    waits = not is_due(slot.pace, state.at(now_ms))
    nobody = Child(incarnation="", role=Role.worker, slot=slot.number, generation=0, asked_ms=state.at(now_ms))
    row = _child(nobody, state, facts, now_ms)
    row["state"] = "stopped" if state.stopping else "backoff" if waits else "starting"
    row["retry_in_s"] = _seconds(slot.pace.retry_ms - state.at(now_ms)) if waits and not state.stopping else None
    return row


def _template(child: Child, facts: Facts, at_ms: int) -> dict[str, Any]:
    return {
        "pid": child.pid or None,
        "incarnation": child.incarnation,
        "generation": child.generation,
        "state": _CHILD_STATES[child.state],
        "uptime_s": _seconds(at_ms - child.asked_ms),
        "note": child.note,
        "rss_bytes": weight.rss_bytes if (weight := facts.weights.get(child.incarnation)) else None,
    }


def _weight(weight: Weight | None, now_ms: int) -> dict[str, Any]:
    if weight is None:
        weight = Weight()
    return {
        "rss_bytes": weight.rss_bytes,
        "uss_bytes": weight.uss_bytes,
        "uss_age_s": None if weight.uss_ms is None else _seconds(now_ms - weight.uss_ms),
        "cpu_percent": weight.cpu_percent,
    }


def _blocked(child: Child, at_ms: int) -> dict[str, Any] | None:
    if child.blocked is None:
        return None
    told = dataclasses.asdict(child.blocked)
    del told["incarnation"]
    return told | {"for_s": _seconds(blocks.lasted_ms(child, at_ms))}


def _stands(child: Child) -> str:
    """Why its lane stands still, as seen from outside; empty: it does not, or nobody has seen it."""
    return str(child.seen.verdict) if child.seen and child.seen.verdict not in MOVING else ""


def is_stale(child: Child, at_ms: int) -> bool:
    """Whether a child that ought to report has been silent too long."""
    if child.role in (Role.clerk, Role.template) or child.coming or child.state is ChildState.killed:
        return False
    return at_ms - (child.ready_ms if child.report is None else child.reported_ms) > STALE_MS


def _store(state: State, facts: Facts, at_ms: int) -> dict[str, Any]:
    told = state.queue
    return {
        "url": told.store_url if told else facts.identity.store_url,
        "ok": told.store_ok if told else None,
        "fault": told.store_fault if told else "",
        "since_s": None if state.store_ms == NEVER else _seconds(at_ms - state.store_ms),
        "age_s": None if told is None else _seconds(at_ms - state.queue_ms),
        "stale": told is not None and at_ms - state.queue_ms > CLERK_STALE_MS,
    }


def _queue(state: State, at_ms: int) -> dict[str, Any]:
    told = state.queue
    counts: dict[str, Any] = {name: told.counts.get(name, 0) if told else None for name in _QUEUE}
    return counts | {"age_s": None if told is None else _seconds(at_ms - state.queue_ms)}


def _pins(state: State) -> Iterator[tuple[Pin, int]]:
    """Pins that no live worker serves, with the number of their runs."""
    if state.queue is not None:
        yield from ((pin_of(text), runs) for text, runs in state.queue.pins.items())


def _incident(noted: Noted, wall_ms: int) -> dict[str, Any]:
    return dataclasses.asdict(noted.incident) | {
        "at_ms": noted.at_ms,
        "age_s": _seconds(max(wall_ms - noted.at_ms, 0)),
    }


def _seconds(ms: float) -> float:
    return round(ms / 1000, 1)


# whether all is well


def unready(state: State, now_ms: int) -> list[str]:
    """Why no work should be counted on here, one sentence each; empty when ready."""
    if state.stopping:
        return ["the supervisor is draining: it starts nothing new"]
    return [*_too_few(state), *_store_faults(state, state.at(now_ms))]


def _too_few(state: State) -> Iterator[str]:
    ready, wanted = state.ready_workers, state.policy.min_ready
    if ready < wanted:
        yield f"{ready} of {state.procs} workers are ready, at least {wanted} must be"


def _store_faults(state: State, at_ms: int) -> Iterator[str]:
    if state.queue is None:
        yield "the clerk has not told of the store yet"
    elif not state.queue.store_ok:
        yield f"the store does not serve: {state.queue.store_fault or 'no reason was given'}"
    elif at_ms - state.queue_ms > CLERK_STALE_MS:
        yield f"the clerk has not told of the store for {spoken(at_ms - state.queue_ms)}"


def degraded(state: State, now_ms: int) -> list[str]:
    """What is not as it should be, one sentence each; a supervisor may be ready all the same."""
    if state.stopping:
        return unready(state, now_ms)
    at_ms = state.at(now_ms)
    unserved = (pins.told(pin, runs) for pin, runs in _pins(state))
    return [*unready(state, now_ms), *_slot_faults(state, at_ms), *_child_faults(state, at_ms), *unserved]


def _slot_faults(state: State, at_ms: int) -> Iterator[str]:
    for slot in state.slots:
        if any(child.serving for child in state.of_slot(slot.number)):
            continue
        last = f": {slot.last_exit}" if slot.last_exit else ""
        if any(child.coming for child in state.of_slot(slot.number)):
            yield f"worker {slot.number} is starting{last}"
        elif is_due(slot.pace, at_ms):
            yield f"worker {slot.number} is not there{last}"
        else:
            yield f"worker {slot.number} is started again in {spoken(slot.pace.retry_ms - at_ms)}{last}"
    if state.suspects and not any(state.cells):
        waits = "1 suspect waits" if state.suspects == 1 else f"{state.suspects} suspects wait"
        yield f"{waits} for a cell"
    if state.clerk is None:
        yield "there is no clerk: the dead are not buried and the store is not watched"


def _child_faults(state: State, at_ms: int) -> Iterator[str]:
    for child in state.children.values():
        place = child.title if child.slot == NO_SLOT else f"{child.role} {child.slot}"
        if child.blocked is not None:
            yield _blocked_fault(place, child, at_ms)
        elif child.seen is not None and child.seen.verdict in _STANDING:
            yield f"{place} {_STANDING[child.seen.verdict]}"
        elif is_stale(child, at_ms):
            last_ms = child.ready_ms if child.report is None else child.reported_ms
            yield f"{place} has not been heard of for {spoken(at_ms - last_ms)}"
        if child.report is not None and child.report.loop_failed:
            yield f"{place} has lost its {child.report.loop_failed} loop"


def _blocked_fault(place: str, child: Child, at_ms: int) -> str:
    by = child.blocked
    whose = f" by run {by.run_id}" if by and by.run_id else ""
    return f"{place} has been blocked for {spoken(blocks.lasted_ms(child, at_ms))}{whose}"
