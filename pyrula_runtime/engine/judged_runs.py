"""A judged run and the store: the record that its dossier holds, and the one release that carries the verdict.

The clerk's burials and a worker that judges itself write the same; the release consumes the fence, so whoever repeats
it charges once.
"""

from __future__ import annotations

from dataclasses import replace

from pyrula_runtime.core.blame import Judgement, Record
from pyrula_runtime.core.status import RunEvent, RunStatus, after
from pyrula_runtime.engine.codec import dossier_of, dump_error, load_record
from pyrula_runtime.stores.protocol import Holding, Release


def record_of(holding: Holding) -> Record:
    """What is held against the run; whether it is a suspect is the store's to say, which has it in that line."""
    return replace(load_record(holding.dossier.record), is_suspect=holding.dossier.is_suspect)


def release_of(holding: Holding, judgement: Judgement) -> Release:
    """The run given back as it was judged."""
    error = judgement.error
    event = RunEvent.release if error is None else RunEvent.quarantine
    return Release(
        token=holding.token,
        status=after(RunStatus.running, event),
        ready=error is None,
        error=None if error is None else dump_error(error),
        dossier=None if judgement.record == record_of(holding) else dossier_of(judgement.record),
    )
