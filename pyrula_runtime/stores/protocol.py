"""The store contract: the verbs every store has, each with its law.

There are two kinds of verbs. *Contended* ones (`claim`, `renew`, `reclaim_lapsed`) are atomic in the store and know
only order and time. *Fenced* ones (`commit`, `release`) check fence and nonce of a `Token` inside the write, and
`amend` checks the run's revision; they write what the core has decided. A status therefore always comes in as an
argument: no store names a rule of a run's life.

Laws that hold for all of them:
- Every verb is atomic and durable when it returns; a crash leaves it done or not done.
- Every verb may be repeated after a lost answer, and then changes nothing twice.
- `StoreUnavailable` means the outcome is unknown: the caller repeats the same call or reads.
- Of several servers one may be away. A verb about many runs does what it can then, and raises `PartlyUnavailable` with
  the answer of the others: of runs that it does not name nothing is known, a lock that may not be renewed least of all.
- The clock is the store's. Wall time (`*_ms` since the epoch) dates things for people; lock life is measured on a clock
  that nobody can set.
- Verbs may be called from any thread that runs an event loop; the answer comes back on that loop.

The values that go with the verbs stand in modules by subject beside this one; all of them can be had from here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import Moves, RunStatus
from pyrula_runtime.stores.effects import CancelRun as CancelRun
from pyrula_runtime.stores.effects import DeliverTo as DeliverTo
from pyrula_runtime.stores.effects import Effect as Effect
from pyrula_runtime.stores.effects import EmitEvent as EmitEvent
from pyrula_runtime.stores.effects import SubmitRun as SubmitRun
from pyrula_runtime.stores.events import Emission as Emission
from pyrula_runtime.stores.events import Event as Event
from pyrula_runtime.stores.events import PendingEvent as PendingEvent
from pyrula_runtime.stores.leases import NOTHING_LEASED as NOTHING_LEASED
from pyrula_runtime.stores.leases import Lease as Lease
from pyrula_runtime.stores.leases import Leased as Leased
from pyrula_runtime.stores.leases import LeaseRequest as LeaseRequest
from pyrula_runtime.stores.messages import Delivery as Delivery
from pyrula_runtime.stores.messages import Fact as Fact
from pyrula_runtime.stores.messages import Message as Message
from pyrula_runtime.stores.messages import Received as Received
from pyrula_runtime.stores.runs import CLEAN as CLEAN
from pyrula_runtime.stores.runs import EVERY_STATUS as EVERY_STATUS
from pyrula_runtime.stores.runs import Census as Census
from pyrula_runtime.stores.runs import Dossier as Dossier
from pyrula_runtime.stores.runs import NewRun as NewRun
from pyrula_runtime.stores.runs import ParentLink as ParentLink
from pyrula_runtime.stores.runs import RunQuery as RunQuery
from pyrula_runtime.stores.runs import RunRecord as RunRecord
from pyrula_runtime.stores.runs import Submission as Submission
from pyrula_runtime.stores.runs import Submitted as Submitted
from pyrula_runtime.stores.schedules import Firing as Firing
from pyrula_runtime.stores.schedules import ScheduleRecord as ScheduleRecord
from pyrula_runtime.stores.schedules import Schedules as Schedules
from pyrula_runtime.stores.turns import Amendment as Amendment
from pyrula_runtime.stores.turns import Append as Append
from pyrula_runtime.stores.turns import Claim as Claim
from pyrula_runtime.stores.turns import ClaimRequest as ClaimRequest
from pyrula_runtime.stores.turns import Commit as Commit
from pyrula_runtime.stores.turns import Committed as Committed
from pyrula_runtime.stores.turns import Ending as Ending
from pyrula_runtime.stores.turns import Holding as Holding
from pyrula_runtime.stores.turns import Lapsed as Lapsed
from pyrula_runtime.stores.turns import Release as Release
from pyrula_runtime.stores.turns import Renewed as Renewed
from pyrula_runtime.stores.turns import Serves as Serves
from pyrula_runtime.stores.turns import Wait as Wait
from pyrula_runtime.stores.turns import Woken as Woken
from pyrula_runtime.stores.wakes import EVERY_WAKE as EVERY_WAKE
from pyrula_runtime.stores.wakes import Listening as Listening
from pyrula_runtime.stores.wakes import Wake as Wake
from pyrula_runtime.stores.workers import WorkerRecord as WorkerRecord


class Store(Protocol):
    """The verbs. See the module's text for the laws that all of them keep."""

    @property
    def url(self) -> str:
        """The address without secrets."""

    @property
    def identity(self) -> str:
        """A string that is equal for two handles exactly if they are on the same store and namespace."""

    @property
    def shards(self) -> int:
        """How many shards runs are kept in; verbs about all runs cost so many calls."""

    def new_run_id(self, now_ms: int, entropy: bytes, key: str | None = None) -> str:
        """A run id of this time, these 10 bytes and this store's shards, the same for the same arguments.

        A run with an idempotency key has to live in its key's shard, so the key belongs to the id. Of an open store.
        """

    def former_run_ids(self, now_ms: int, entropy: bytes) -> tuple[str, ...]:
        """The other ids that `new_run_id` has given for the same, while the store had other numbers of shards."""

    async def open(self) -> None:
        """Connect, create or check the schema. Idempotent. Raises StoreRefused or StoreUnavailable."""

    async def close(self) -> None:
        """Finish what is queued, then let go of everything. Idempotent."""

    def submit(self, run: NewRun) -> Awaitable[Submitted]:
        """Create the run, claimable unless its start is to come; its idempotency key is part of the same write."""

    def claim(self, request: ClaimRequest) -> Awaitable[tuple[Claim, ...]]:
        """Take at most `limit` claimable runs, by priority, then age: fence + 1, new nonce, lock. Never waits."""

    def renew(self, tokens: Sequence[Token], lock_ttl_ms: int) -> Awaitable[Renewed]:
        """Extend the locks of live tokens to a full life from now; a dead token never revives a lock."""

    def commit(self, commit: Commit) -> asyncio.Future[Committed]:
        """Write journal entries (and the turn's ending) under the token; extends the lock.

        Longer journal with the same bytes at `expected_len` written under this token: `duplicate`. A token consumed
        by exactly this commit's own ending answers `duplicate` too. Nothing of a commit that is not `done` is written.
        A `Future` comes back at once, so that a caller on an event loop can order commits without a task for each.
        """

    def release(self, release: Release) -> Awaitable[bool]:
        """Give the run back (and charge it); False if the token was dead already, and then nothing changed."""

    def amend(self, amendment: Amendment) -> Awaitable[bool]:
        """Apply an operator's change if the run's revision is still `rev`; False if not."""

    def deliver(self, message: Message, moves: Moves) -> Awaitable[Delivery]:
        """Put a message into the run's inbox, once per id, in order of arrival.

        A run that waits for messages goes where `moves` leads, claimable and in front; every other keeps the message. A
        status that is absent from `moves` absorbs.
        """

    def read_inbox(self, run_id: str, after_seq: int) -> Awaitable[tuple[Received, ...]]:
        """Messages after `after_seq` that are not consumed, in order: at most 1 MB together, at least one if any."""

    def wake_due(self, moves: Moves, limit: int) -> Awaitable[Woken]:
        """Make runs claimable whose time has come, in order of their times, at most `limit` and never more than 500.

        Never early by the store's clock. Takes no lock while nothing is due.
        """

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

    def read_facts(self, run_id: str, after: int, limit: int) -> Awaitable[tuple[Fact, ...]]:
        """At most `limit` facts that the run told after number `after`."""

    def counts(self, statuses: frozenset[RunStatus] = EVERY_STATUS) -> Awaitable[Mapping[tuple[str, RunStatus], int]]:
        """How many runs of these statuses there are by workflow and status; the cost grows with their number."""

    def census(self, statuses: frozenset[RunStatus]) -> Awaitable[Census]:
        """What `counts` and `suspects` tell, and how many runs that have not ended are pinned: a call to each shard."""

    def suspects(self) -> Awaitable[int]:
        """How many suspects wait for a cell: claimable, and by nobody else."""

    def beat(self, worker: WorkerRecord, forget_after_ms: int) -> Awaitable[None]:
        """Register or refresh a worker; drop records that were not refreshed for `forget_after_ms`.

        Whoever pings and beats gives a sign of life in the whole store; see `reclaim_lapsed`.
        """

    def retire(self, incarnation: str) -> Awaitable[None]:
        """Forget a worker."""

    def workers(self) -> Awaitable[tuple[WorkerRecord, ...]]:
        """The workers known, with the age of their last beat."""

    def lease(self, request: LeaseRequest) -> Awaitable[Leased]:
        """Take a share of the shards, keep it, or hand on what is more than a share; claims look there first.

        Nothing is taken from a worker that keeps asking. With one shard there is nothing to ask for.
        """

    def give_up_leases(self, incarnation: str) -> Awaitable[None]:
        """Hand this worker's shards to the others that serve the same, at once; anybody may tell it."""

    def leases(self) -> Awaitable[tuple[Lease, ...]]:
        """Who leases what."""

    def carry(self, limit: int) -> Awaitable[int]:
        """See to effects that a store keeps in an outbox and whoever wrote them did not see to; how many, at most."""

    def put_schedule(self, schedule: ScheduleRecord) -> Awaitable[bool]:
        """Write a schedule that is still at `rev` (0: there is none of this id), as `rev` + 1; False if it is not."""

    def schedules(self, *, due_only: bool = False) -> Awaitable[Schedules]:
        """All schedules, or those whose time has come."""

    def fire(self, firing: Firing) -> Awaitable[bool]:
        """Move a schedule on and let its runs begin, in one write, if it is still at `rev`; False if not.

        So whatever number of hosts fire one nominal time, one of them does it. Whether it is due by the store's clock
        is asked before (`schedules(due_only=True)`): what a person triggers is fired before its time.
        """

    def drop_schedule(self, schedule_id: str) -> Awaitable[bool]:
        """Forget a schedule; False if there was none. Its runs go on."""

    def subscribe(self, workflow: str, version: str | None, names: frozenset[str]) -> Awaitable[None]:
        """Say which events start this version of a workflow, instead of those before; takes over deferred ones."""

    def emit(self, event: Event) -> Awaitable[Emission]:
        """Keep an event for the workflows that are subscribed to it; once per id."""

    def events_pending(
        self, workflows: frozenset[str] | None, limit: int, after: PendingEvent | None = None
    ) -> Awaitable[tuple[PendingEvent, ...]]:
        """Events that these workflows have still to take, oldest first; with None those of all, and deferred ones.

        `after` is the last one of the page before, whether or not it has been taken since.
        """

    def settle_event(self, event_id: str, workflow: str, run: NewRun | None) -> Awaitable[bool]:
        """Let the run begin that comes of an event for this workflow, if any; False if that was settled before."""

    def purge(self, limit: int) -> Awaitable[int]:
        """Drop idempotency records and settled events whose time is over, at most `limit` of each; how many went."""

    def drop_finished(self, statuses: frozenset[RunStatus], older_than_ms: int, limit: int) -> Awaitable[int]:
        """Drop runs that ended in one of these statuses that long ago (1 ms or more), at most `limit`; how many went.

        With all that belongs to them, longest ended first; idempotency keys live on, and name a run that is gone. A
        child stays as long as its parent has not ended, and may then stay for `older_than_ms` once more.
        """

    def ping(self) -> Awaitable[None]:
        """Prove that the store can take a write now (a lock, not a row); StoreUnavailable says why not."""

    def tell_tenure(self, tell: Callable[[int], None]) -> None:
        """Tell from now on, on any thread, since when this process wants or has what keeps all others from writing.

        Monotonic ms; 0: it does not. For the black box: a process that stands still meanwhile freezes the host, if it
        has it, which the kernel knows. Other kinds of store never tell.
        """

    def listen(self, on_wake: Callable[[Wake], None], kinds: frozenset[Wake] = EVERY_WAKE) -> Listening:
        """Call `on_wake` on this thread's running loop whenever something of `kinds` may have happened, from now on.

        Subscribe first, then look: what happens after `listen` returned is never missed, at worst late by the
        fallback's period (1 s; 3 s once nothing has happened for ten).
        """
