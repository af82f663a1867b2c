"""The store contract: the verbs every store has, each with its law.

There are two kinds of verbs. *Contended* ones (`claim`, `renew`, `reclaim_lapsed`) are atomic in the store and know
only order and time. *Fenced* ones (`commit`, `release`) check fence and nonce of a `Token` inside the write, and
`amend` checks the run's revision; they write what the core has decided. A status therefore always comes in as an
argument: no store names a rule of a run's life.

Laws that hold for all of them:
- Every verb is atomic and durable when it returns; a crash leaves it done or not done.
- Every verb may be repeated after a lost answer, and then changes nothing twice.
- `StoreUnavailable` means the outcome is unknown: the caller repeats the same call or reads.
- The clock is the store's. Wall time (`*_ms` since the epoch) dates things for people; lock life is measured on a clock
  that nobody can set.
- Verbs may be called from any thread that runs an event loop; the answer comes back on that loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Protocol

from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import RunStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run to be created. `input` is a JSON document; `digest` says when two submits are the same."""

    run_id: str
    workflow: str
    version: str | None
    input: bytes
    digest: str
    status: RunStatus
    idempotency_key: str | None = None
    idempotency_ttl_ms: int = 86_400_000


class Submission(StrEnum):
    """What became of a submit."""

    created = "created"
    existing = "existing"  # same key or id, same digest: the first run answers
    conflict = "conflict"  # same key or id, other digest: nothing was written


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """Answer of `submit`; `run_id` is the run that now stands for the request."""

    run_id: str
    submission: Submission


@dataclass(frozen=True, slots=True, kw_only=True)
class Serves:
    """One workflow that a worker can execute: its unpinned runs and those pinned to `version`."""

    workflow: str
    version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dossier:
    """What is held against a run (core.blame): `record` is opaque to a store, a suspect is for `suspects` claims."""

    record: bytes = b""
    is_suspect: bool = False


CLEAN = Dossier()


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
class RunRecord:
    """A run as it stands, without its journal. Times are wall-clock milliseconds.

    `rev` grows with each change of status or operator's act (not with each journal entry). `owner` is the holder's
    incarnation and `lock_left_ms` the rest of its lock's life (negative: lapsed), both None unless it is held.
    """

    run_id: str
    workflow: str
    version: str | None
    status: RunStatus
    rev: int
    fence: int
    input: bytes
    result: bytes | None
    error: bytes | None
    digest: str
    journal_len: int
    journal_bytes: int
    inbox_len: int
    cancel_requested: bool
    dossier: Dossier
    created_ms: int
    started_ms: int | None
    finished_ms: int | None
    owner: str | None
    lock_left_ms: int | None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A signal for a run; `message_id` makes its delivery happen once."""

    run_id: str
    message_id: str
    name: str
    body: bytes


class Delivery(StrEnum):
    """What became of a message."""

    delivered = "delivered"
    duplicate = "duplicate"
    ended = "ended"  # the run is in a terminal status: nothing was kept
    unknown = "unknown"  # no such run


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """Which runs to list, newest first (ids sort by age). `before` is the last run id of the page before."""

    workflow: str | None = None
    statuses: frozenset[RunStatus] | None = None
    limit: int = 100
    before: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRecord:
    """What a worker tells about itself, so that others can explain why a run waits. `age_ms` is set by the store."""

    incarnation: str
    worker_id: str
    pid: int
    host: str
    serves: tuple[Serves, ...]
    capacity: int
    running: int
    draining: bool
    age_ms: int = 0


class Wake(Enum):
    """Why a listener is woken. A wake is a hint: it may come twice or for nothing, and a lost one is made up for."""

    ready = "ready"  # a run became claimable
    attention = "attention"  # a held run was cancelled or taken away: renew now
    ended = "ended"  # a run reached a terminal status


EVERY_WAKE = frozenset(Wake)
EVERY_STATUS = frozenset(RunStatus)


class Listening(Protocol):
    """A subscription to wakes."""

    def close(self) -> None:
        """End it; no callback comes afterwards."""


class Store(Protocol):
    """The verbs. See the module's text for the laws that all of them keep."""

    @property
    def url(self) -> str:
        """The address without secrets."""

    @property
    def identity(self) -> str:
        """A string that is equal for two handles exactly if they are on the same store and namespace."""

    async def open(self) -> None:
        """Connect, create or check the schema. Idempotent. Raises StoreRefused or StoreUnavailable."""

    async def close(self) -> None:
        """Finish what is queued, then let go of everything. Idempotent."""

    def submit(self, run: NewRun) -> Awaitable[Submitted]:
        """Create the run and make it claimable; the record of its idempotency key is part of the same write."""

    def claim(self, request: ClaimRequest) -> Awaitable[tuple[Claim, ...]]:
        """Take at most `limit` claimable runs, oldest first: fence + 1, new nonce, lock. Never waits."""

    def renew(self, tokens: Sequence[Token], lock_ttl_ms: int) -> Awaitable[Renewed]:
        """Extend the locks of live tokens to a full life from now; a dead token never revives a lock."""

    def commit(self, commit: Commit) -> asyncio.Future[Committed]:
        """Write journal entries (and the turn's ending) under the token; extends the lock.

        Longer journal with the same bytes at `expected_len` written under this token: `duplicate`. A token consumed
        by exactly this commit's own ending answers `duplicate` too. A `Future` comes back at once, so that a caller on
        an event loop can order commits without a task for each.
        """

    def release(self, release: Release) -> Awaitable[bool]:
        """Give the run back (and charge it); False if the token was dead already, and then nothing changed."""

    def amend(self, amendment: Amendment) -> Awaitable[bool]:
        """Apply an operator's change if the run's revision is still `rev`; False if not."""

    def deliver(self, message: Message, absorbed_by: frozenset[RunStatus]) -> Awaitable[Delivery]:
        """Put a message into the run's inbox, once per id, in order of arrival; `absorbed_by` names ended statuses."""

    def reclaim_lapsed(self, to_status: RunStatus, lock_ttl_ms: int, limit: int) -> Awaitable[Lapsed]:
        """Make runs with lapsed locks claimable again (front of the queue), or grant grace after an outage."""

    def holdings(self, incarnation: str) -> Awaitable[tuple[Holding, ...]]:
        """Everything this incarnation holds, live or lapsed."""

    def read(self, run_id: str) -> Awaitable[RunRecord | None]:
        """The run as it stands, or None."""

    def read_journal(self, run_id: str, start: int, max_bytes: int = 1_000_000) -> Awaitable[tuple[bytes, ...]]:
        """Journal entries from position `start`: whole ones, at most `max_bytes` together, at least one if any."""

    def find(self, query: RunQuery) -> Awaitable[tuple[RunRecord, ...]]:
        """List runs, newest first."""

    def counts(self, statuses: frozenset[RunStatus] = EVERY_STATUS) -> Awaitable[Mapping[tuple[str, RunStatus], int]]:
        """How many runs of these statuses there are by workflow and status; the cost grows with their number."""

    def suspects(self) -> Awaitable[int]:
        """How many suspects wait for a cell: claimable, and by nobody else."""

    def beat(self, worker: WorkerRecord, forget_after_ms: int) -> Awaitable[None]:
        """Register or refresh a worker; drop records that were not refreshed for `forget_after_ms`."""

    def retire(self, incarnation: str) -> Awaitable[None]:
        """Forget a worker."""

    def workers(self) -> Awaitable[tuple[WorkerRecord, ...]]:
        """The workers known, with the age of their last beat."""

    def purge(self, limit: int) -> Awaitable[int]:
        """Drop at most `limit` idempotency records whose time is over; how many went."""

    def ping(self) -> Awaitable[None]:
        """Prove that the store can take a write now (a lock, not a row); StoreUnavailable says why not."""

    def tell_tenure(self, tell: Callable[[int], None]) -> None:
        """Tell from now on, on any thread, since when this process keeps all others from writing (monotonic ms; 0: no).

        For the black box: a process that stands still meanwhile freezes the host. Other kinds of store never tell.
        """

    def listen(self, on_wake: Callable[[Wake], None], kinds: frozenset[Wake] = EVERY_WAKE) -> Listening:
        """Call `on_wake` on this thread's running loop whenever something of `kinds` may have happened, from now on.

        Subscribe first, then look: what happens after `listen` returned is never missed, at worst late by the
        fallback's period (1 s; 3 s once nothing has happened for ten).
        """
