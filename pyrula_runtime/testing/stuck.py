"""Why a simulation does not go on, in sentences: what a test would otherwise hang on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from pyrula_runtime.client.submittable import known
from pyrula_runtime.core.entries import Op, OpKind
from pyrula_runtime.core.errors import PyrulaError
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.current import Current
from pyrula_runtime.engine.payloads import PLAIN
from pyrula_runtime.stores.protocol import RunRecord


class SimulationStuck(PyrulaError):
    """A run was to be played on, and nothing that it waits for will come by itself; the message says what it is."""


def why_stuck(records: Iterable[RunRecord], waits_for: Callable[[str], Sequence[Op]]) -> SimulationStuck:
    """Nothing will ever happen any more, and these runs have not ended; `waits_for` says what for, by a run's id."""
    told = [
        f"Run {each.run_id} of workflow {each.workflow!r} {_reason(each, waits_for(each.run_id))}" for each in records
    ]
    return SimulationStuck(" ".join(told))


def why_late(patience_s: float, now: datetime, on_loop: Sequence[Current], threads: int) -> SimulationStuck:
    """One call took too long."""
    steps = [f"step {each.step!r} of run {each.run_id} (attempt {each.attempt})" for each in on_loop]
    if threads:
        steps.append(f"code in {threads} {'thread' if threads == 1 else 'threads'}")
    if not steps:
        return SimulationStuck(
            f"It goes on and on: after {patience_s:g} s of real time it is {now:%Y-%m-%d %H:%M} in the simulation. "
            f"Let a workflow that never ends run for a while, with simulation.advance(...), or give more patience=..."
        )
    return SimulationStuck(
        f"{', '.join(steps)} is still at work after {patience_s:g} s of real time. What it waits for has to come from "
        f"outside: fake the step, or give the simulation more patience=..."
    )


def _reason(record: RunRecord, waits_for: Sequence[Op]) -> str:
    if record.status is RunStatus.paused:
        error = None if record.error is None else PLAIN.load_error(record.error)
        return "was paused." if error is None else f"is paused: {str(error).rstrip('.')}."
    if record.status is RunStatus.queued:
        defined = known(record.workflow)
        if defined is None:
            return "is queued for a workflow that this process does not define: import its module first."
        return (
            f"is queued for version {record.version!r}, but the workflow that is defined here has {defined.version!r}."
        )
    signals = [op.name for op in waits_for if op.kind is OpKind.signal]
    hint = f": send it with run.signal({signals[0]!r}, ...) before its end is waited for" if signals else ""
    return f"waits for {', '.join(map(str, waits_for)) or 'something'}, and nobody brings it{hint}."
