"""What a worker, a duty or an operator says to a store about a run, and what it hears: claims, commits, endings.

A turn that ends in a wait says what it waits for (`Wait`), and the store looks once more inside the write: what came
between the turn's last look and the suspension sends the run on at once, so no message can fall between the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.stores.effects import Effect
from pyrula_runtime.stores.messages import Received
from pyrula_runtime.stores.runs import CLEAN, Dossier, ParentLink


@dataclass(frozen=True, slots=True, kw_only=True)
class Serves:
    """One workflow that a worker can execute: its unpinned runs and those pinned to `version`."""

    workflow: str
    version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """What a worker can take now: with `suspects` runs that are suspects and no others, without it all others."""

    incarnation: str
    serves: tuple[Serves, ...]
    limit: int
    lock_ttl_ms: int
    to_status: RunStatus  # the status of a claimed run, from the core's table
    suspects: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A run that this worker now holds.

    `journal` is the beginning of the journal, whole entries of at most 1 MB together, or nothing if there was no room
    beside other claims; the rest, up to `journal_len`, comes from `read_journal`. `started_ms` is the wall time of the
    run's first claim, or the first since it went on as new: it does so for the `generation`th time, from 1. `inbox` are
    the messages that are not consumed, in order, whole ones of at most 1 MB together, at least one if there was room
    (else it was `inbox_skipped`); the rest comes from `read_inbox`, for `inbox_len` counts every message that ever
    came. `now_ms` is the store's wall time of this claim: what is due by the store's clock is due for whoever claims,
    however wrong the worker's own clock is.
    """

    token: Token
    workflow: str
    version: str | None
    input: bytes
    journal: tuple[bytes, ...]
    journal_len: int
    journal_bytes: int
    created_ms: int
    started_ms: int
    now_ms: int
    cancel_requested: bool
    dossier: Dossier = CLEAN
    inbox: tuple[Received, ...] = ()
    inbox_len: int = 0
    inbox_skipped: bool = False
    parent: ParentLink | None = None
    generation: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """What a turn waits for when it ends, and the status of a run that has it already.

    The run goes to `wake_status`, claimable and in front, if by the store's clock `due_ms` has come, if more messages
    came than `inbox_seen` (the last `seq` the turn has looked at), or if it was cancelled and the turn has not
    `cancel_seen`. With `inbox_seen` None no message wakes it: messages are kept for the next turn. Otherwise `awaits`
    tells people, in words, for which messages it waits.
    """

    due_ms: int | None
    inbox_seen: int | None
    wake_status: RunStatus
    cancel_seen: bool = False
    awaits: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a turn leaves the run when it ends by its own will: a status and what goes with it.

    `wait` suspends it. `again` is the input of a run that goes on as new: claimable, its journal is empty, its
    generation one more, its start open; inbox, fence and what its code showed and told stay.
    """

    status: RunStatus
    result: bytes | None = None
    error: bytes | None = None
    wait: Wait | None = None
    again: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Append `entries` at position `expected_len` and, if `ending` is given, end the turn: one atomic write.

    `dossier` replaces what is held against the run, in the same write. `claim` asks for more runs in the same round
    trip; it is looked at only if the commit itself succeeds. `consumed` are the numbers of messages whose content is in
    `entries`: they are not given out again, though their ids are remembered. `shown` replaces the document that the run
    shows, `facts` are told under the next numbers, `effects` strike other runs. Facts go with entries or an ending,
    for by these a repetition is known.
    """

    token: Token
    expected_len: int
    entries: tuple[bytes, ...]
    lock_ttl_ms: int
    ending: Ending | None = None
    claim: ClaimRequest | None = None
    dossier: Dossier | None = None
    consumed: tuple[int, ...] = ()
    shown: bytes | None = None
    facts: tuple[bytes, ...] = ()
    effects: tuple[Effect, ...] = ()


class Append(Enum):
    """What became of a commit."""

    done = "done"
    duplicate = "duplicate"  # these very entries stand there already, by this token: an answer was lost
    fenced = "fenced"  # the token is dead: nothing was written, the turn must end
    gap = "gap"  # the store has less than expected_len entries (data loss): nothing was written


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """Answer of `commit`. `length` is the journal's length in the store after the call, `inbox_len` the inbox's."""

    append: Append
    length: int
    cancel_requested: bool = False
    claims: tuple[Claim, ...] = ()
    inbox_len: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Give a run back and, if `dossier` is given, write what is held against it: the fence is consumed by it.

    `status` says where the run goes; a run released to a claimable status (`ready=True`) goes to the front of its
    queue, since it has waited its turn before.
    """

    token: Token
    status: RunStatus
    ready: bool
    error: bytes | None = None
    dossier: Dossier | None = None
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewed:
    """Answer of `renew`, by run id: tokens that are dead, and held runs whose cancellation was requested.

    `inbox` says how many messages ever came for those held runs that have any.
    """

    lost: frozenset[str]
    cancelled: frozenset[str]
    inbox: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lapsed:
    """Answer of `reclaim_lapsed`: the runs made claimable again, or `grace` after an outage (see core.locks).

    No lock lapses within `quiet_ms` from now on; 0 where a store does not say.
    """

    run_ids: tuple[str, ...]
    grace: bool = False
    quiet_ms: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """A run that some incarnation holds."""

    token: Token
    workflow: str
    dossier: Dossier


@dataclass(frozen=True, slots=True, kw_only=True)
class Amendment:
    """An operator's change to a run that is still at revision `rev`. None leaves a field as it is.

    `ready` makes the run claimable (True) or not (False). `append` are journal entries for position `expected_len`.
    `clear_outcome` drops result, error and finish time; it goes with every status that lets an ended run live again,
    since a store may tell by the finish time who lives. A held run keeps its lock and token unless `status` is given: a
    change of status consumes the fence, and ends the wait of a run that waits. `due_ms` goes with the status of a run
    that is to wait for that time.
    """

    run_id: str
    rev: int
    status: RunStatus | None = None
    ready: bool | None = None
    cancel_requested: bool | None = None
    dossier: Dossier | None = None
    expected_len: int = 0
    append: tuple[bytes, ...] = ()
    clear_outcome: bool = False
    due_ms: int | None = None
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Woken:
    """Answer of `wake_due`: how many runs went on, and when the next is due (past: call again). The store's clock."""

    woken: int
    next_due_ms: int | None
    now_ms: int
