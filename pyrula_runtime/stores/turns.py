"""What a worker, a duty or an operator says to a store about a run, and what it hears: claims, commits, endings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.stores.runs import CLEAN, Dossier


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

    `journal` is the beginning of the journal, whole entries of at most 1 MB together (at least one); the rest, up to
    `journal_len`, comes from `read_journal`. `started_ms` is the wall time of the run's first claim.
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
    cancel_requested: bool
    dossier: Dossier = CLEAN


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a turn leaves the run when it ends by its own will: a status and what goes with it."""

    status: RunStatus
    result: bytes | None = None
    error: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Append `entries` at position `expected_len` and, if `ending` is given, end the turn: one atomic write.

    `dossier` replaces what is held against the run, in the same write. `claim` asks for more runs in the same round
    trip; it is looked at only if the commit itself succeeds.
    """

    token: Token
    expected_len: int
    entries: tuple[bytes, ...]
    lock_ttl_ms: int
    ending: Ending | None = None
    claim: ClaimRequest | None = None
    dossier: Dossier | None = None


class Append(Enum):
    """What became of a commit."""

    done = "done"
    duplicate = "duplicate"  # these very entries stand there already, by this token: an answer was lost
    fenced = "fenced"  # the token is dead: nothing was written, the turn must end
    gap = "gap"  # the store has less than expected_len entries (data loss): nothing was written


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """Answer of `commit`. `length` is the journal's length in the store after the call."""

    append: Append
    length: int
    cancel_requested: bool = False
    claims: tuple[Claim, ...] = ()


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewed:
    """Answer of `renew`: tokens that are dead, and held runs whose cancellation was requested (by run id)."""

    lost: frozenset[str]
    cancelled: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lapsed:
    """Answer of `reclaim_lapsed`: the runs made claimable again, or `grace` after an outage (see core.locks)."""

    run_ids: tuple[str, ...]
    grace: bool = False


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
    `clear_outcome` drops result, error and finish time. A held run keeps its lock and token unless `status` is given:
    a change of status consumes the fence.
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
