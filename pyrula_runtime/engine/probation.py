"""A suspect's way back: what its turn has to commit before nothing is held against the run any more.

The deaths that made it a suspect happened while certain operations were open. If it commits their outcomes, it has come
past the place, and it was not its code that killed. Where that is not known (it was in the body, or the box was torn),
or where they are on record already, what it performs first after the replay stands for them: whatever it did when its
worker died, it has done again by then. A run that ends has come past everything.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyrula_runtime.core.blame import cleared, opened_at
from pyrula_runtime.core.entries import Completed, Entry, Failed, Withdrawn
from pyrula_runtime.engine.codec import dossier_of, load_record
from pyrula_runtime.stores.protocol import Claim, Dossier


class Probation:
    """One run's, for one turn."""

    def __init__(self, claim: Claim) -> None:
        """That of a claimed run; of one that is no suspect it is over."""
        self._record = load_record(claim.dossier.record) if claim.dossier.is_suspect else None
        self._places = set(opened_at(self._record)) if self._record is not None else set()

    def begins(self, op_ids: Iterable[str]) -> None:
        """The turn performs these; what it performs first is the place if no other is known."""
        if self._record is not None and not self._places:
            self._places = set(op_ids)

    def passes(self, entry: Entry) -> bool:
        """Note an entry of the journal, recorded before or new; whether with it the last place is behind the run."""
        if not self._places or not isinstance(entry, Completed | Failed | Withdrawn):
            return False
        was_there = entry.op.op_id in self._places
        self._places.discard(entry.op.op_id)
        return was_there and not self._places

    def end(self) -> Dossier | None:
        """Nothing is held against the run any more: what its dossier becomes; None if it is as it should be."""
        record, self._record, self._places = self._record, None, set()
        return None if record is None else dossier_of(cleared(record))
