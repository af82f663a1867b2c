"""Writing a turn's journal: what is not committed yet, the one commit under way, and its repetition after an outage.

One commit is under way at a time; what comes meanwhile goes with the next. A commit whose answer was lost is repeated
word for word, so that the store can recognise it by content; nothing is ever added to a commit that was sent. If the
store has lost commits that it had acknowledged, they are sent again before the one that found out (engine.mending).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pyrula_runtime.core.entries import Completed, Entry, Failed, Json
from pyrula_runtime.core.errors import ErrorRecord, LimitExceeded, StoreUnavailable
from pyrula_runtime.core.limits import entry_fault, journal_fault, journal_share, passes_warning
from pyrula_runtime.engine.codec import load_json
from pyrula_runtime.engine.facts import FactType, dump_fact
from pyrula_runtime.engine.mending import Written, as_of
from pyrula_runtime.engine.payloads import Payloads
from pyrula_runtime.stores.protocol import Append, Claim, ClaimRequest, Commit, Committed, Dossier, Effect, Ending

# first pause before a commit is repeated after an outage, doubled up to the ceiling (seconds)
_RETRY_S = 0.05
_RETRY_MAX_S = 2.0

# what one write may do: it keeps all others from writing, or a server from everything else
_MOST_BYTES, _MOST_EFFECTS = 4_000_000, 200

_REFUSALS = {Append.fenced: "lock lost", Append.gap: "the store lost journal entries"}


class Desk(Protocol):
    """What the writing needs of the lane."""

    lock_ttl_ms: int
    payloads: Payloads

    def commit(self, commit: Commit) -> asyncio.Future[Committed]:
        """Write to the store."""

    def claim_request(self) -> ClaimRequest | None:
        """What to claim in place of a run that ends, if anything."""

    def outage(self, error: StoreUnavailable) -> None:
        """The store could not be used; the write will be repeated."""

    def adopt(self, claims: Sequence[Claim]) -> None:
        """Runs came in place of a turn that has ended otherwise meanwhile, and has no place to give."""


class JournalOwner(Protocol):
    """The turn, as its journal sees it."""

    is_over: bool

    def written(self, ending: Ending | None, reply: Committed, *, claimed: bool) -> None:
        """A commit is done; `claimed` says whether it asked for further runs."""

    def refused(self, reason: str) -> None:
        """The store does not take this turn's writes any more."""

    def broken(self, error: Exception) -> None:
        """The store refuses the commit itself, and would refuse it again."""

    def note(self, level: int, message: str, *args: object) -> None:
        """Tell people something about this run."""


@dataclass(frozen=True, slots=True)
class _Line:
    """An entry to be written, and what goes with it."""

    raw: bytes
    consumed: int
    effects: tuple[Effect, ...]
    facts: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Last:
    """How the turn ends, and what goes with that."""

    ending: Ending
    consumed: tuple[int, ...] = ()
    effects: tuple[Effect, ...] = ()

    @property
    def is_final(self) -> bool:
        """Whether no other turn comes to where the code has come."""
        return self.ending.status.is_terminal or self.ending.again is not None


def storable(entry: Entry, payloads: Payloads) -> tuple[Entry, bytes]:
    """An entry as it is stored; one that is too large becomes a failure that says so. CodecFailed."""
    raw = payloads.dump_entry(entry)
    if isinstance(entry, Completed) and (fault := entry_fault(f"the result of {entry.op}", len(raw))):
        record = ErrorRecord(type=LimitExceeded.__name__, message=fault)
        entry = Failed(op=entry.op, at_ms=entry.at_ms, error=record, message=entry.message)
        raw = payloads.dump_entry(entry)
    return entry, raw


class Journaling:
    """The growing end of one run's journal."""

    def __init__(self, claim: Claim, desk: Desk, owner: JournalOwner) -> None:
        self.committed = claim.journal_len
        self.dossier: Dossier | None = None  # what the next commit makes of the run's
        self._length = claim.journal_len
        self._bytes = claim.journal_bytes
        self._token = claim.token
        self._desk = desk
        self._owner = owner
        self._tail: list[_Line] = []
        self._shown: bytes | None = None  # the status from the next commit on
        self._told: bytes | None = None  # the same as a fact
        self._written = Written()
        self._inbox_len = claim.inbox_len  # messages that the store has told of
        self._is_behind = False  # it has told of messages that it has not got any more
        self._to_send: deque[Commit] = deque()  # the first is under way; several while the store is mended

    @property
    def is_writing(self) -> bool:
        """Whether a commit is under way."""
        return bool(self._to_send)

    @property
    def is_settled(self) -> bool:
        """Whether every entry is committed."""
        return not (self._to_send or self._tail)

    def show(self, document: bytes) -> None:
        """Show this status from the next commit on. CodecFailed.

        It is told as a fact with the entry that comes next: from then on a replay passes this place, and does not tell
        it again.
        """
        payloads = self._desk.payloads
        self._told = dump_fact(FactType.status, load_json(document), payloads)
        self._shown = payloads.seal(document)

    def add(self, raw: bytes, *, consumed: int = 0, effects: tuple[Effect, ...] = ()) -> None:
        """Take an entry for the next commit, with the message that it takes over, if any, and what it does to others.

        Raises LimitExceeded when the journal is full; the entry is left out.
        """
        fault = journal_fault(self._length + 1, self._bytes + len(raw))
        if fault is not None:
            raise LimitExceeded(fault)
        facts = self._take_told()
        if passes_warning(self._length, self._bytes, 1, len(raw)):
            facts += (self._warning(self._length + 1, self._bytes + len(raw)),)
        self._length += 1
        self._bytes += len(raw)
        self._tail.append(_Line(raw, consumed, effects, facts))

    def flush(self, last: Last | None) -> None:
        """Send what is not committed, and last of all the ending, if there is one, unless a commit is under way."""
        if self._to_send or not (self._tail or last or self._shown is not None):
            return
        lines = self._take()
        if self._tail:
            last = None
        dossier, self.dossier = self.dossier, None
        shown, self._shown = self._shown, None
        # what a suspended turn has not told is said again by the next one, which comes to the same place
        told = self._take_told() if last is not None and last.is_final else ()
        self._to_send.append(
            Commit(
                token=self._token,
                expected_len=self.committed,
                entries=tuple(each.raw for each in lines),
                lock_ttl_ms=self._desk.lock_ttl_ms,
                ending=None if last is None else last.ending,
                claim=self._desk.claim_request() if last is not None else None,
                dossier=dossier,
                shown=shown,
                facts=tuple(fact for each in lines for fact in each.facts) + told,
                consumed=tuple(each.consumed for each in lines if each.consumed) + (last.consumed if last else ()),
                effects=tuple(effect for each in lines for effect in each.effects) + (last.effects if last else ()),
            )
        )
        self._send(self._to_send[0])

    def _warning(self, entries: int, size: int) -> bytes:
        """Tell people while there is time to change the workflow, and whoever watches the run."""
        share = journal_share(entries, size)
        self._owner.note(logging.WARNING, "journal past a fifth of its limit: %d entries, %d bytes", entries, size)
        data: Json = {"entries": entries, "bytes": size, "share": share}
        return dump_fact(FactType.journal_warning, data, self._desk.payloads)

    def _take_told(self) -> tuple[bytes, ...]:
        told, self._told = self._told, None
        return () if told is None else (told,)

    def _take(self) -> list[_Line]:
        """The beginning of what is to be written: as much as one write may do."""
        size = effects = 0
        for count, line in enumerate(self._tail):
            size, effects = size + len(line.raw), effects + len(line.effects)
            if count and (size > _MOST_BYTES or effects > _MOST_EFFECTS):
                break
        else:
            count = len(self._tail)
        taken, self._tail = self._tail[:count], self._tail[count:]
        return taken

    def _send(self, commit: Commit, retry_s: float = _RETRY_S) -> None:
        self._desk.commit(commit).add_done_callback(lambda answer: self._answered(commit, answer, retry_s))

    def _send_again(self, commit: Commit, retry_s: float) -> None:
        if not self._owner.is_over:
            self._send(commit, retry_s)

    def _answered(self, commit: Commit, answer: asyncio.Future[Committed], retry_s: float) -> None:
        error = answer.exception()
        if self._owner.is_over:
            if error is None and answer.result().claims:
                self._desk.adopt(answer.result().claims)
            return
        if isinstance(error, StoreUnavailable):
            self._owner.note(logging.WARNING, "cannot commit, trying again in %.2f s: %s", retry_s, error)
            self._desk.outage(error)
            loop = asyncio.get_running_loop()
            loop.call_later(retry_s, self._send_again, commit, min(retry_s * 2, _RETRY_MAX_S))
            return
        if isinstance(error, Exception):
            self._owner.broken(error)
            return
        self._heard(commit, answer.result())

    def _heard(self, commit: Commit, reply: Committed) -> None:
        if reply.append is Append.gap and self._mend(reply):
            return
        if reply.append in _REFUSALS:
            self._owner.refused(_REFUSALS[reply.append])
            return
        self._to_send.popleft()
        if self._to_send:
            self._send(self._to_send[0])
            return
        self.committed += len(commit.entries)
        if commit.ending is None and self._is_behind:
            self._owner.refused("the store has lost messages that this turn has seen")
            return
        self._inbox_len = max(self._inbox_len, reply.inbox_len)
        if commit.ending is None:
            self._written.keep(commit)
        self._owner.written(commit.ending, reply, claimed=commit.claim is not None)

    def _mend(self, reply: Committed) -> bool:
        """Write again what the store has lost, then what is new; False if that is not to be had any more."""
        missing = self._written.beyond(reply.length)
        if missing:
            lost = self.committed - reply.length
            self._owner.note(
                logging.WARNING, "the store has lost the last %d journal entries: writing them again", lost
            )
            self._is_behind |= reply.inbox_len < self._inbox_len
            self._to_send = deque(as_of(commit, reply.inbox_len) for commit in (*missing, self._to_send[-1]))
            self._send(self._to_send[0])
        return bool(missing)
