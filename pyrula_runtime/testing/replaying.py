"""The check that a run's journal fits its code: the run as it stands is rehearsed, and judged as by `runs replay`.

A run that has ended must come to the same end again; one that goes on, to where it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyrula_runtime.core.rehearsing import End, Verdict, verdict
from pyrula_runtime.engine.payloads import PLAIN
from pyrula_runtime.engine.program import Program
from pyrula_runtime.engine.rehearsal import rehearse
from pyrula_runtime.stores.protocol import RunRecord


class ReplayDiffers(AssertionError):
    """The journal of a run does not fit the code of its workflow; the message says where."""


async def judged(record: RunRecord, journal: Sequence[bytes], program: Program) -> Verdict:
    """Replay a run through its program, and compare."""
    rehearsed = await rehearse(record, journal, program, PLAIN)
    return verdict(_end(record), _end(rehearsed.record), rehearsed.next_steps)


def _end(record: RunRecord) -> End:
    return End(
        status=record.status,
        value=None if record.result is None else PLAIN.load_json(record.result),
        error=None if record.error is None else PLAIN.load_error(record.error),
    )
