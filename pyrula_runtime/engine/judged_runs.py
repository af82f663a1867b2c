"""A judged run and the store: the record that its dossier holds, and the one release that carries the verdict.

The clerk's burials and a worker that judges itself write the same; the release consumes the fence, so whoever repeats
it charges once.
"""

from __future__ import annotations

from dataclasses import replace

from pyrula_runtime.core.blame import Judgement, Record
from pyrula_runtime.core.status import RunEvent, RunStatus, after
from pyrula_runtime.engine.codec import dossier_of, dump_error, load_record
from pyrula_runtime.engine.parting import parting
from pyrula_runtime.stores.protocol import Holding, Release, Store


def record_of(holding: Holding) -> Record:
    """What is held against the run; whether it is a suspect is the store's to say, which has it in that line."""
    return replace(load_record(holding.dossier.record), is_suspect=holding.dossier.is_suspect)


async def release_of(store: Store, holding: Holding, judgement: Judgement) -> Release:
    """The run given back as it was judged; a quarantine is told to its relatives. StoreUnavailable."""
    release = Release(
        token=holding.token,
        status=after(RunStatus.running, RunEvent.release),
        ready=True,
        dossier=None if judgement.record == record_of(holding) else dossier_of(judgement.record),
    )
    if judgement.error is None:
        return release
    status, error = after(RunStatus.running, RunEvent.quarantine), dump_error(judgement.error)
    run = await store.read(holding.token.run_id)
    effects = () if run is None else await parting(store, run, status, error)
    return replace(release, status=status, ready=False, error=error, effects=effects)
