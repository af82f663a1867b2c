"""A schedule as a store keeps it, and the run that one of its times begins: JSON that later versions still read."""

from __future__ import annotations

import functools
from typing import Any

import orjson

from pyrula_runtime.core.calendar import Timing
from pyrula_runtime.core.cron import Cron
from pyrula_runtime.core.entries import Json
from pyrula_runtime.core.ids import input_digest
from pyrula_runtime.core.scheduling import Declaration, Overlap, ScheduleState
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.scheduling.zones import local_text, zone_named
from pyrula_runtime.stores.protocol import NewRun

# the parameter of a workflow that is filled with the nominal time
TIME_PARAMETER = "scheduled_at"


@functools.lru_cache(maxsize=1024)
def timing_of(declared: Declaration) -> Timing:
    """When it comes. UsageError if this host knows no such zone."""
    cron = None if declared.cron is None else Cron.parse(declared.cron)
    return Timing(cron=cron, every_ms=declared.every_ms, zone=zone_named(declared.timezone))


def dump_state(state: ScheduleState) -> bytes:
    """A schedule as bytes."""
    declared = state.declared
    tree: dict[str, Any] = {
        "declared": None if declared is None else {name: getattr(declared, name) for name in Declaration.__slots__},
        "by": state.by,
        "after_ms": state.after_ms,
        "replaced": state.replaced,
        "paused": state.paused,
        "buffered_ms": state.buffered_ms,
        "fired_ms": state.fired_ms,
        "passed_over": state.passed_over,
    }
    return orjson.dumps(tree)


@functools.lru_cache(maxsize=1024)
def load_state(schedule_id: str, raw: bytes) -> ScheduleState:
    """A schedule back from bytes; ValueError if a newer version has written what this one does not know."""
    tree = orjson.loads(raw)
    return ScheduleState(
        schedule_id=schedule_id,
        declared=None if tree["declared"] is None else _declaration(tree["declared"]),
        by=tree["by"],
        after_ms=tree["after_ms"],
        replaced=tuple(tree["replaced"]),
        paused=tree["paused"],
        buffered_ms=tree["buffered_ms"],
        fired_ms=tree["fired_ms"],
        passed_over=tree["passed_over"],
    )


def _declaration(tree: dict[str, Any]) -> Declaration:
    known = {name: tree[name] for name in Declaration.__slots__}
    return Declaration(**known | {"overlap": Overlap(tree["overlap"])})


def input_at(declared: Declaration, nominal_ms: int) -> Json:
    """What the run of a nominal time is given."""
    return {TIME_PARAMETER: local_text(nominal_ms, declared.timezone)} if declared.takes_time else {}


def new_run(state: ScheduleState, declared: Declaration, nominal_ms: int, run_id: str) -> NewRun:
    """The run of a nominal time."""
    given = orjson.dumps(input_at(declared, nominal_ms))
    return NewRun(
        run_id=run_id,
        workflow=declared.workflow,
        version=declared.version,
        input=given,
        digest=input_digest(declared.workflow, given),
        status=RunStatus.queued,
        schedule_id=state.schedule_id,
    )
