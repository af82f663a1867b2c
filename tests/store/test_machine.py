"""Random histories: whatever two workers, clients, operators and the clock do, every store answers as the model does.

Answers get lost by repeating a call and looking at the second answer only. Nonces are random in one store and counted
in the other, so tokens are paired by claim; everything else must be equal, after every step.

A store of several shards keeps order within a shard only, and hears no silence but that of the whole: there the runs
are spread, claims ask for all that there is, what comes has no order, and a worker beats whenever time has passed.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.core.ids import run_id
from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import DELIVERY, TERMINAL, RunStatus
from pyrula_runtime.stores import protocol as p
from pyrula_runtime.stores.memory.store import MemoryStore
from pyrula_runtime.stores.memory.world import World
from tests.store.samples import DAY_MS, TTL_MS, new_run, sign_of_life, worker
from tests.store.sites import SITES

Pair = tuple[Token, Token]  # the same claim in the model and in the store

RUNS = st.sampled_from([f"run-{number}" for number in range(5)])
WORKFLOWS = st.sampled_from(["a", "b"])
VERSIONS = st.sampled_from([None, "1", "2"])
NOBODY = Token(run_id="", fence=0, nonce="")
WORKERS = st.sampled_from(["w-1", "w-2"])
ENTRIES = st.lists(st.sampled_from([b"x", b"yy", b"z" * 50]), max_size=4).map(tuple)
DOSSIERS = st.none() | st.builds(p.Dossier, record=st.sampled_from([b"", b"1", b"2"]), is_suspect=st.booleans())
DOCUMENTS = st.none() | st.sampled_from([b'"one"', b'"two"'])
ENDINGS = st.builds(p.Ending, status=st.sampled_from([*TERMINAL, RunStatus.waiting]), result=DOCUMENTS, error=DOCUMENTS)
SERVES = st.lists(st.builds(p.Serves, workflow=WORKFLOWS, version=VERSIONS), min_size=1, max_size=3).map(tuple)
REQUESTS = st.builds(
    p.ClaimRequest,
    incarnation=WORKERS,
    serves=SERVES,
    limit=st.integers(1, 3),
    lock_ttl_ms=st.just(TTL_MS),
    to_status=st.just(RunStatus.running),
    suspects=st.sampled_from([False, False, True]),
)
SUBMITS = st.builds(
    lambda run, workflow, version, key: new_run(workflow, version, run=run, key=key, digest=workflow),
    RUNS,
    WORKFLOWS,
    VERSIONS,
    st.sampled_from([None, None, "k1", "k2"]),
)
COMMITS = st.builds(
    p.Commit,
    token=st.just(NOBODY),
    expected_len=st.just(0),
    entries=ENTRIES,
    lock_ttl_ms=st.just(TTL_MS),
    ending=st.none() | ENDINGS,
    claim=st.none() | REQUESTS,
    dossier=DOSSIERS,
)
RELEASES = st.one_of(
    [
        st.builds(
            p.Release,
            token=st.just(NOBODY),
            status=st.just(status),
            ready=st.just(status is RunStatus.queued),
            error=DOCUMENTS,
            dossier=DOSSIERS,
        )
        for status in (RunStatus.queued, RunStatus.paused, RunStatus.quarantined)
    ]
)
AMENDMENTS = st.one_of(
    [
        st.builds(
            p.Amendment,
            run_id=RUNS,
            rev=st.just(0),
            status=st.just(status),
            ready=st.just(None if status is None else status is RunStatus.queued),
            cancel_requested=st.none() | st.booleans(),
            dossier=DOSSIERS,
            append=ENTRIES,
            clear_outcome=st.just(status in (RunStatus.queued, RunStatus.waiting, RunStatus.paused)),
        )
        for status in (None, RunStatus.queued, RunStatus.waiting, RunStatus.paused, RunStatus.failed)
    ]
)


class Histories(RuleBasedStateMachine):
    """Every rule performs one verb on both stores and compares the answers."""

    kind: ClassVar[str]
    pairs: Bundle[Pair] = Bundle("pairs")

    @initialize()
    def begin(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.site = SITES[self.kind](Path(self.folder.name))
        self.clock = self.site.clock
        self.model = MemoryStore(World(self.clock))
        # two handles on one store stand for two processes
        self.handles = [self.site.handle() for _ in range(2)]
        stores: list[p.Store] = [self.model, *self.handles]
        for store in stores:
            self.loop.run_until_complete(store.open())
        self.turn = 0

    @property
    def is_spread(self) -> bool:
        """Whether the runs are in several shards."""
        return self.site.shards > 1

    def id_of(self, run: str) -> str:
        """The id in this store of one of the few runs."""
        number = int(run.removeprefix("run-"))
        return f"{new_id(number)}-{number * 3 % self.site.shards:x}" if self.is_spread else run

    def wide(self, request: p.ClaimRequest) -> p.ClaimRequest:
        """The request, for all that there is where order is not what it is in one shard."""
        return replace(request, limit=99) if self.is_spread else request

    def run(self, call: Callable[[p.Store], Awaitable[Any]], *, again: bool = False) -> tuple[Any, Any]:
        """The answers of the model and of the store; with `again`, those to the call repeated after a lost answer."""
        self.turn += 1
        return self._answer(call, self.model, again=again), self._answer(call, self.handles[self.turn % 2], again=again)

    def _answer(self, call: Callable[[p.Store], Awaitable[Any]], store: p.Store, *, again: bool) -> Any:
        async def perform() -> Any:
            try:
                first = await call(store)
                return await call(store) if again else first
            except UsageError as error:
                return str(error)

        return self.loop.run_until_complete(perform())

    def same(self, call: Callable[[p.Store], Awaitable[Any]], *, again: bool = False) -> Any:
        modelled, real = self.run(call, again=again)
        assert real == modelled
        return real

    def with_token(
        self, pair: Pair, call: Callable[[p.Store, Token], Awaitable[Any]], *, again: bool
    ) -> tuple[Any, Any]:
        return self.run(lambda store: call(store, pair[store is not self.model]), again=again)

    def paired(self, modelled: tuple[p.Claim, ...], real: tuple[p.Claim, ...]) -> list[Pair]:
        """Compare claims but for the nonce, and pair their tokens."""
        if self.is_spread:
            modelled, real = (tuple(sorted(told, key=lambda claim: claim.token.run_id)) for told in (modelled, real))
        assert [_plain(claim) for claim in real] == [_plain(claim) for claim in modelled]
        return [(mine.token, its.token) for mine, its in zip(modelled, real, strict=True)]

    @rule(new=SUBMITS, again=st.booleans())
    def submit(self, new: p.NewRun, *, again: bool) -> None:
        new = replace(new, run_id=self.id_of(new.run_id))
        self.same(lambda store: store.submit(new), again=again)

    @rule(target=pairs, request=REQUESTS)
    def claim(self, request: p.ClaimRequest) -> Any:
        request = self.wide(request)
        return multiple(*self.paired(*self.run(lambda store: store.claim(request))))

    @rule(target=pairs, pair=pairs, off=st.sampled_from([0, 0, 0, 0, -1, 1]), commit=COMMITS, again=st.booleans())
    def commit(self, pair: Pair, off: int, commit: p.Commit, *, again: bool) -> Any:
        standing = self.same(lambda store: store.read(pair[0].run_id))
        # a claim that is repeated takes other runs: leave that to its own rule
        wanted = replace(
            commit,
            expected_len=max(0, standing.journal_len + off),
            claim=None if again or self.is_spread else commit.claim,
        )
        modelled, real = self.with_token(
            pair, lambda store, token: store.commit(replace(wanted, token=token)), again=again
        )
        assert replace(real, claims=()) == replace(modelled, claims=())
        return multiple(*self.paired(modelled.claims, real.claims))

    @rule(pair=pairs, release=RELEASES, again=st.booleans())
    def release(self, pair: Pair, release: p.Release, *, again: bool) -> None:
        modelled, real = self.with_token(
            pair, lambda store, token: store.release(replace(release, token=token)), again=again
        )
        assert real == modelled

    @rule(pairs_=st.lists(consumes(pairs), max_size=3), again=st.booleans())
    def renew(self, pairs_: list[Pair], *, again: bool) -> None:
        self.same(lambda store: store.renew([pair[store is not self.model] for pair in pairs_], TTL_MS), again=again)

    @rule(amendment=AMENDMENTS, stale=st.sampled_from([0, 0, 0, 1]), again=st.booleans())
    def amend(self, amendment: p.Amendment, stale: int, *, again: bool) -> None:
        amendment = replace(amendment, run_id=self.id_of(amendment.run_id))
        record = self.same(lambda store: store.read(amendment.run_id))
        rev, length = (record.rev, record.journal_len) if record else (1, 0)
        wanted = replace(amendment, rev=rev - stale, expected_len=length)
        self.same(lambda store: store.amend(wanted), again=again)

    @rule(run=RUNS, message_id=st.sampled_from(["m1", "m2"]), again=st.booleans())
    def deliver(self, run: str, message_id: str, *, again: bool) -> None:
        message = p.Message(run_id=self.id_of(run), message_id=message_id, name="n", body=b"{}")
        self.same(lambda store: store.deliver(message, DELIVERY), again=again)

    @rule(again=st.booleans())
    def reclaim(self, *, again: bool) -> None:
        # which of several locks that lapsed in the same millisecond goes first is nobody's law
        modelled, real = self.run(lambda store: store.reclaim_lapsed(RunStatus.queued, TTL_MS, 99), again=again)
        assert (set(real.run_ids), real.grace) == (set(modelled.run_ids), modelled.grace)

    @rule(ms=st.sampled_from([1_000, 7_000, 11_000, 40_000, DAY_MS]))
    def time_passes(self, ms: int) -> None:
        self.clock.move(ms)
        if self.is_spread:
            self.same(sign_of_life)

    @rule(name=WORKERS, again=st.booleans())
    def beat(self, name: str, *, again: bool) -> None:
        self.same(lambda store: store.beat(worker(name), 20_000), again=again)

    @rule(limit=st.integers(1, 3))
    def purge(self, limit: int) -> None:
        self.same(lambda store: store.purge(limit))

    @rule(statuses=st.sets(st.sampled_from(list(TERMINAL))), older_than_ms=st.sampled_from([1, TTL_MS, DAY_MS]))
    def drop(self, statuses: set[RunStatus], older_than_ms: int) -> None:
        self.same(lambda store: store.drop_finished(frozenset(statuses), older_than_ms, 100))

    @rule(
        workflow=st.none() | WORKFLOWS,
        statuses=st.none() | st.frozensets(st.sampled_from(RunStatus), max_size=3),
        limit=st.integers(1, 4),
        before=st.none() | RUNS,
    )
    def find(self, workflow: str | None, statuses: frozenset[RunStatus] | None, limit: int, before: str | None) -> None:
        before = None if before is None else self.id_of(before)
        query = p.RunQuery(workflow=workflow, statuses=statuses, limit=limit, before=before)
        self.same(lambda store: store.find(query))

    @rule(name=WORKERS)
    def holdings(self, name: str) -> None:
        modelled, real = self.run(lambda store: store.holdings(name))
        told, expected = (
            [(held.token.run_id, held.token.fence, held.dossier) for held in each] for each in (real, modelled)
        )
        if self.is_spread:
            told, expected = sorted(told, key=str), sorted(expected, key=str)
        assert told == expected

    @rule(run=RUNS, start=st.integers(0, 4), max_bytes=st.sampled_from([1, 60, 1_000_000]))
    def read_journal(self, run: str, start: int, max_bytes: int) -> None:
        self.same(lambda store: store.read_journal(self.id_of(run), start, max_bytes))

    @invariant()
    def the_stores_agree(self) -> None:
        if hasattr(self, "turn"):
            self.same(lambda store: store.find(p.RunQuery()))
            self.same(lambda store: store.counts())
            self.same(lambda store: store.census(p.EVERY_STATUS))
            self.same(lambda store: store.workers())
            self.same(lambda store: store.suspects())

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        problems = self.model.audit() + self.site.audit()
        for handle in self.handles:
            self.loop.run_until_complete(handle.close())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        self.folder.cleanup()
        assert problems == []


def new_id(number: int) -> str:
    """An id as stores make them, the same for the same number."""
    return run_id(1_700_000_000_000 + number, bytes(10))


def _plain(claim: p.Claim) -> p.Claim:
    return replace(claim, token=replace(claim.token, nonce=""))


SETTINGS = settings(
    max_examples=30, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
# of several shards each step asks every one; Redis 7 stands between two servers that go through all of it
FEWER = dict.fromkeys(("shards", "cluster_shards", "redis7"), settings(SETTINGS, max_examples=12))
LONG = settings(SETTINGS, max_examples=600, derandomize=False)
# the seam is the model itself, and a cluster is six processes: one for the whole suite is enough
KINDS = [
    pytest.param(kind, marks=[pytest.mark.xdist_group("cluster")] if "cluster" in kind else [])
    for kind in SITES
    if kind not in ("model", "seam")
]


def histories_on(kind: str, machine: type[Histories], how_many: settings) -> None:
    """Make up histories, and have a store of this kind agree with the model in each."""

    class OnKind(machine):  # type: ignore[misc,valid-type]
        pass

    OnKind.kind = kind
    run_state_machine_as_test(OnKind, settings=how_many)


@pytest.mark.parametrize("kind", KINDS)
def test_histories(kind: str) -> None:
    histories_on(kind, Histories, FEWER.get(kind, SETTINGS))


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
def test_many_other_histories(kind: str) -> None:
    histories_on(kind, Histories, LONG)
