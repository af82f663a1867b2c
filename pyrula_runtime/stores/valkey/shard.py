"""One shard: the verbs of the contract on the keys of one tag, each a script: atomic, and one round trip."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from heapq import merge
from itertools import islice
from typing import Any, Protocol

from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import Moves, RunStatus
from pyrula_runtime.stores import protocol as p
from pyrula_runtime.stores.valkey import answers, effects, requests
from pyrula_runtime.stores.valkey.connection import Argument
from pyrula_runtime.stores.valkey.places import Places

# runs that go on in one call, and deferred events that are taken over: a call keeps everybody else waiting, so none is
# to take more than 3 ms of the server's time
WOKEN_AT_ONCE = 100
TAKEN_OVER_AT_ONCE = 500


class Runner(Protocol):
    """Runs a script at a tag, on the lane of the loop that asks."""

    def __call__(
        self, tag: str, name: str, args: tuple[Argument, ...], told: Callable[[Any], Any]
    ) -> asyncio.Future[Any]:
        """The answer, made of the reply by `told`."""


class Moved(Exception):
    """Keys are placed by another number of shards now."""


class Unmade(Exception):
    """The key is kept for a run of another shard that may not have been made."""

    def __init__(self, run_id: str) -> None:
        super().__init__(run_id)
        self.run_id = run_id


class Shard:
    """The verbs at one tag; whose runs they are about, the store has seen to."""

    def __init__(self, number: int, places: Places, runner: Runner) -> None:
        self.number = number
        self.tag = places.tag(number)
        self._places = places
        self._runner = runner
        self._effects = partial(effects.block, places=places)

    def _run(self, name: str, *args: Argument, told: Callable[[Any], Any] = bool) -> asyncio.Future[Any]:
        return self._runner(self.tag, name, args, told)

    def submit(self, run: p.NewRun, count: int | None = None) -> asyncio.Future[p.Submitted]:
        """Create the run; `count` is the number of shards by which its key was placed. Raises Moved, Unmade."""
        return self._run("submit", *requests.submit(run, count), told=_submitted)

    def look_up_key(self, run: p.NewRun, count: int) -> asyncio.Future[p.Submitted | None]:
        """The run that stands for the run's key already, if any. Raises Moved, Unmade."""
        return self._run("key", "", *requests.key(run, count), told=_kept)

    def keep_key(self, run: p.NewRun, count: int) -> asyncio.Future[p.Submitted | None]:
        """Keep the run's key for it, unless another run has it. Raises Moved, Unmade."""
        return self._run("key", run.run_id, *requests.key(run, count), told=_kept)

    def made(self, run: p.NewRun) -> asyncio.Future[bool]:
        """The run was made for which its key was kept here."""
        return self._run("made", run.run_id, *requests.key(run, None)[:2])

    def claim(self, request: p.ClaimRequest) -> asyncio.Future[tuple[p.Claim, ...]]:
        return self._run("claim", *requests.claim(request), told=answers.claims)

    def renew(self, tokens: Sequence[Token], lock_ttl_ms: int) -> asyncio.Future[p.Renewed]:
        tokens = tuple(tokens)
        return self._run("renew", *requests.renew(tokens, lock_ttl_ms), told=partial(answers.renewed, tokens))

    def commit(self, commit: p.Commit) -> asyncio.Future[p.Committed]:
        if requests.is_plain(commit):
            return self._run("append", *requests.append(commit), told=answers.committed)
        return self._run("commit", *requests.commit(commit, self._effects), told=answers.committed)

    def release(self, release: p.Release) -> asyncio.Future[bool]:
        return self._run("release", *requests.release(release, self._effects))

    async def amend(self, amendment: p.Amendment) -> bool:
        done = await self._run("amend", *requests.amend(amendment, self._effects), told=int)
        if done < 0:
            raise UsageError(
                f"run {amendment.run_id} is held by a worker; to make it claimable, give its new status too"
            )
        return bool(done)

    def reclaim_lapsed(self, to_status: RunStatus, lock_ttl_ms: int, limit: int) -> asyncio.Future[p.Lapsed]:
        return self._run("reclaim", to_status, lock_ttl_ms, limit, "", told=answers.lapsed)

    def reclaim(
        self, to_status: RunStatus, lock_ttl_ms: int, limit: int, outage: str
    ) -> asyncio.Future[tuple[p.Lapsed, int, int]]:
        """The same, with the outage that is known already, or '' where silence is measured.

        Told with it: the count of those, and how many effects are to be carried from here.
        """
        return self._run("reclaim", to_status, lock_ttl_ms, limit, outage, told=answers.reclaimed)

    def holdings(self, incarnation: str) -> asyncio.Future[tuple[p.Holding, ...]]:
        return self._run("holdings", incarnation, told=lambda reply: answers.holdings(reply)[0])

    def holdings_and_left_over(self, incarnation: str) -> asyncio.Future[tuple[tuple[p.Holding, ...], int]]:
        """The same, and how many effects are to be carried from here."""
        return self._run("holdings", incarnation, told=answers.holdings)

    def read(self, run_id: str) -> asyncio.Future[p.RunRecord | None]:
        return self._run("read", run_id, told=partial(answers.record, run_id))

    def read_journal(self, run_id: str, start: int, max_bytes: int = 1_000_000) -> asyncio.Future[tuple[bytes, ...]]:
        return self._run("read_journal", run_id, start, max_bytes, told=tuple)

    async def find(self, query: p.RunQuery) -> tuple[p.RunRecord, ...]:
        lists = await self._run("find", *requests.find(query), told=list)
        newest = islice(merge(*lists, reverse=True), query.limit)
        found = await asyncio.gather(*[self.read(run_id.decode()) for run_id in newest])
        return tuple(record for record in found if record is not None)

    def counts(
        self, statuses: frozenset[RunStatus] = p.EVERY_STATUS
    ) -> asyncio.Future[Mapping[tuple[str, RunStatus], int]]:
        return self._run("counts", *sorted(statuses), told=answers.counts)

    def census(self, statuses: frozenset[RunStatus]) -> asyncio.Future[p.Census]:
        return self._run("census", *sorted(statuses), told=answers.census)

    def suspects(self) -> asyncio.Future[int]:
        return self._run("suspects", told=int)

    # what waits, and what strikes others

    def deliver(self, message: p.Message, moves: Moves) -> asyncio.Future[p.Delivery]:
        return self._run("deliver", *requests.deliver(message, moves), told=lambda said: p.Delivery(said.decode()))

    def read_inbox(self, run_id: str, after_seq: int) -> asyncio.Future[tuple[p.Received, ...]]:
        return self._run("read_inbox", run_id, after_seq, told=answers.received)

    def wake_due(self, moves: Moves, limit: int) -> asyncio.Future[p.Woken]:
        return self._run("wake_due", min(limit, WOKEN_AT_ONCE), *requests.led(moves), told=answers.woken)

    def read_facts(self, run_id: str, after: int, limit: int) -> asyncio.Future[tuple[p.Fact, ...]]:
        return self._run("read_facts", run_id, after, limit, told=partial(answers.facts, after))

    def put_schedule(self, schedule: p.ScheduleRecord) -> asyncio.Future[bool]:
        return self._run("put_schedule", *requests.schedule(schedule))

    def schedules(self, *, due_only: bool = False) -> asyncio.Future[p.Schedules]:
        return self._run("schedules", int(due_only), told=answers.schedules)

    def fire(self, firing: p.Firing) -> asyncio.Future[bool]:
        return self._run("fire", *requests.schedule(firing), *self._effects(firing.effects))

    def drop_schedule(self, schedule_id: str) -> asyncio.Future[bool]:
        return self._run("drop_schedule", schedule_id)

    async def subscribe(self, workflow: str, version: str | None, names: frozenset[str]) -> None:
        while await self._run("subscribe", workflow, version or "", TAKEN_OVER_AT_ONCE, *sorted(names)):
            pass  # some deferred events at a time; who is interrupted goes on when it subscribes again

    def emit(self, event: p.Event) -> asyncio.Future[p.Emission]:
        return self._run("emit", *requests.emit(event), told=lambda said: p.Emission(said.decode()))

    def events_pending(
        self, workflows: frozenset[str] | None, limit: int, after: p.PendingEvent | None = None
    ) -> asyncio.Future[tuple[p.PendingEvent, ...]]:
        of, first = ("*",) if workflows is None else sorted(workflows), 0 if after is None else after.place
        # of the event at that place, other workflows may be left, each of which is in the answer once more
        asked = limit if after is None else limit + 1
        return self._run("events_pending", asked, first, *of, told=partial(answers.pending, limit, after))

    def settle_event(self, event_id: str, workflow: str, run: p.NewRun | None) -> asyncio.Future[bool]:
        comes = () if run is None else (p.SubmitRun(run=run),)
        return self._run("settle_event", event_id, workflow, *self._effects(comes))

    # workers, and what is over

    def beat(self, worker: p.WorkerRecord, forget_after_ms: int) -> asyncio.Future[int]:
        return self._run("beat", worker.incarnation, requests.worker(worker), forget_after_ms, told=int)

    def retire(self, incarnation: str) -> asyncio.Future[None]:
        return self._run("retire", incarnation, told=_nothing)

    def workers(self) -> asyncio.Future[tuple[p.WorkerRecord, ...]]:
        return self._run("workers", told=answers.workers)

    async def purge(self, limit: int) -> int:
        records = events = 0
        while True:
            # a page may be all of keys that were used again since: these are struck off a list, and nothing goes
            page = await self._run("purge", limit - records, limit - events, told=list)
            went, settled, is_full = map(int, page)
            records, events = records + went, events + settled
            if not is_full or records >= limit:
                return records + events

    def finished(
        self, statuses: frozenset[RunStatus], older_than_ms: int, limit: int
    ) -> asyncio.Future[list[answers.Ended]]:
        """Runs that ended so, that long ago, longest ended first."""
        return self._run("finished", older_than_ms, limit, *sorted(statuses), told=answers.finished)

    def drop(self, runs: Sequence[tuple[answers.Ended, bool]]) -> asyncio.Future[int]:
        """Drop these if they are as they were found, but for those that are to be kept; how many went."""
        return self._run("drop", *requests.drop(runs), told=int)

    def ping(self) -> asyncio.Future[None]:
        return self._run("ping", told=_nothing)

    def ask(self, name: str, *args: Argument, told: Callable[[Any], Any]) -> asyncio.Future[Any]:
        """Run what is no verb of a shard: of the store as a whole, in the first one."""
        return self._run(name, *args, told=told)

    def place(self, count: int) -> asyncio.Future[bool]:
        """Have keys placed by this number of shards, and by no other."""
        return self._run("place", count)

    def arm(self) -> asyncio.Future[bool]:
        """Have the next run that becomes claimable told."""
        return self._run("arm")


def _submitted(reply: Sequence[bytes]) -> p.Submitted:
    if reply[0] == b"moved":
        raise Moved
    if reply[0] == b"unmade":
        raise Unmade(reply[1].decode())
    return answers.submitted(reply)


def _kept(reply: Sequence[bytes]) -> p.Submitted | None:
    return None if reply[0] == b"free" else _submitted(reply)


def _nothing(reply: object) -> None:
    return None
