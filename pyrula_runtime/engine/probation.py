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
    """One suspect's, for one turn."""

    def __init__(self, claim: Claim) -> None:
        record = load_record(claim.dossier.record)
        self.reward: Dossier = dossier_of(cleared(record))  # what the run's dossier becomes
        self._places = set(opened_at(record))

    @classmethod
    def of(cls, claim: Claim) -> Probation | None:
        """That of a claimed run; None if it is no suspect."""
        return cls(claim) if claim.dossier.is_suspect else None

    def begins(self, op_ids: Iterable[str]) -> None:
        """The turn performs these; what it performs first is the place if no other is known."""
        if not self._places:
            self._places = set(op_ids)

    def passes(self, entry: Entry) -> bool:
        """Note an entry of the journal, recorded before or new; whether with it the last place is behind the run."""
        if not isinstance(entry, Completed | Failed | Withdrawn) or entry.op.op_id not in self._places:
            return False
        self._places.discard(entry.op.op_id)
        return not self._places
