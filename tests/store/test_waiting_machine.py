"""Random histories of waiting: signals, timers, suspensions, effects, schedules and events, in every order.

Whatever comes between two writes, and however often a call is repeated after a lost answer, the store does what the
model does. A crash is a token that is used no more: its lock lapses, and another worker claims the run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, multiple, rule

from pyrula_runtime.core.status import CANCELLATION, DELIVERY, DUE, RunStatus
from pyrula_runtime.core.tree import OnEnd
from pyrula_runtime.stores import protocol as p
from tests.store.samples import DAY_MS, new_run, request
from tests.store.sites import SITES
from tests.store.test_machine import (
    ENTRIES,
    LONG,
    NOBODY,
    RUNS,
    SETTINGS,
    WORKFLOWS,
    Histories,
    Pair,
    histories_on,
)

IDS = st.sampled_from(["m1", "m2", "m3"])
AFTER_MS = st.sampled_from([0, 500, 1_000, 8_000, DAY_MS])
EVENT_NAMES = st.sampled_from(["created", "paid"])
EVENTS = st.builds(
    p.Event, event_id=st.sampled_from(["e1", "e2", "e3"]), name=EVENT_NAMES, body=st.just(b"1"), ttl_ms=AFTER_MS
)
PARENTS = st.none() | st.builds(p.ParentLink, run_id=RUNS, op_id=st.just("op"), on_end=st.sampled_from(OnEnd))
MESSAGES = st.builds(p.Message, run_id=RUNS, message_id=IDS, name=st.just("n"), body=st.just(b"{}"))
SUBMITS = st.builds(
    lambda run, workflow, priority, parent, schedule: replace(
        new_run(workflow, run=run, digest=workflow), priority=priority, parent=parent, schedule_id=schedule
    ),
    RUNS,
    WORKFLOWS,
    st.integers(-1, 1),
    PARENTS,
    st.sampled_from([None, "s1"]),
)
EFFECTS = st.lists(
    st.one_of(
        st.builds(p.DeliverTo, message=MESSAGES, moves=st.just(DELIVERY)),
        st.builds(p.CancelRun, run_id=RUNS, moves=st.just(CANCELLATION)),
        st.builds(p.SubmitRun, run=SUBMITS),
        st.builds(p.EmitEvent, event=EVENTS),
    ),
    max_size=3,
).map(tuple)
WAITS = st.builds(
    p.Wait,
    due_ms=st.none() | AFTER_MS,  # from now
    inbox_seen=st.sampled_from([None, 0, 1, 2]),
    wake_status=st.just(RunStatus.queued),
    cancel_seen=st.booleans(),
)
ENDINGS = st.one_of(
    st.none(),
    st.builds(p.Ending, status=st.just(RunStatus.waiting), wait=WAITS),
    st.builds(p.Ending, status=st.just(RunStatus.waiting), wait=WAITS),
    st.builds(p.Ending, status=st.just(RunStatus.queued), again=st.sampled_from([b'"new"', b'"newer"'])),
)
COMMITS = st.builds(
    p.Commit,
    token=st.just(NOBODY),
    expected_len=st.just(0),
    entries=ENTRIES,
    lock_ttl_ms=st.just(30_000),
    ending=ENDINGS,
    consumed=st.lists(st.integers(1, 3), max_size=2, unique=True).map(tuple),
    shown=st.sampled_from([None, b"1", b"2"]),
    facts=st.lists(st.sampled_from([b"f", b"g"]), max_size=2).map(tuple),
    effects=EFFECTS,
)
ANY_RUN = request(("a", "1"), ("b", "1"), ("a", "2"), ("b", "2"), limit=1)
# more than elsewhere, since more can happen; with the same scripts on another kind of server only the server differs
MANY, SOME = settings(SETTINGS, max_examples=70), settings(SETTINGS, max_examples=20)
SCHEDULES = st.sampled_from(["s1", "s2"])


class Waiting(Histories):
    """The rules of waiting beside all others."""

    @rule(new=SUBMITS, after_ms=st.none() | AFTER_MS, again=st.booleans())
    def submit_for_later(self, new: p.NewRun, after_ms: int | None, *, again: bool) -> None:
        if after_ms is not None:
            new = replace(new, status=RunStatus.waiting, start_at_ms=self.clock.wall_ms() + after_ms)
        self.same(lambda store: store.submit(new), again=again)

    @rule(target=Histories.pairs, mail=st.integers(0, 2), commit=COMMITS, again=st.booleans())
    def a_turn(self, mail: int, commit: p.Commit, *, again: bool) -> Any:
        """Take a run, have messages come meanwhile, and commit: most of what is written is written by a live turn."""
        pairs = self.paired(*self.run(lambda store: store.claim(ANY_RUN)))
        for pair in pairs:
            for number in range(mail):
                message = p.Message(run_id=pair[0].run_id, message_id=f"m{number + 1}", name="n", body=b"{}")
                self._send(message, again=False)
            self._commit(pair, commit, again=again)
        return multiple(*pairs)

    def _send(self, message: p.Message, *, again: bool) -> None:
        self.same(lambda store: store.deliver(message, DELIVERY), again=again)

    @rule(pair=Histories.pairs, commit=COMMITS, again=st.booleans())
    def commit_and_wait(self, pair: Pair, commit: p.Commit, *, again: bool) -> None:
        self._commit(pair, commit, again=again)

    def _commit(self, pair: Pair, commit: p.Commit, *, again: bool) -> None:
        standing = self.same(lambda store: store.read(pair[0].run_id))
        wanted = replace(commit, expected_len=standing.journal_len)
        if commit.ending is not None and commit.ending.wait is not None and commit.ending.wait.due_ms is not None:
            wait = replace(commit.ending.wait, due_ms=self.clock.wall_ms() + commit.ending.wait.due_ms)
            wanted = replace(wanted, ending=replace(commit.ending, wait=wait))
        modelled, real = self.with_token(
            pair, lambda store, token: store.commit(replace(wanted, token=token)), again=again
        )
        assert real == modelled

    @rule(pair=Histories.pairs, effects=EFFECTS, again=st.booleans())
    def release_with_effects(self, pair: Pair, effects: tuple[p.Effect, ...], *, again: bool) -> None:
        release = p.Release(token=NOBODY, status=RunStatus.queued, ready=True, effects=effects)
        modelled, real = self.with_token(
            pair, lambda store, token: store.release(replace(release, token=token)), again=again
        )
        assert real == modelled

    @rule(run=RUNS, effects=EFFECTS, after_ms=st.none() | AFTER_MS)
    def amend_with_effects(self, run: str, effects: tuple[p.Effect, ...], after_ms: int | None) -> None:
        record = self.same(lambda store: store.read(run))
        wanted = p.Amendment(run_id=run, rev=record.rev if record else 1, effects=effects)
        if after_ms is not None:
            due_ms = self.clock.wall_ms() + after_ms
            wanted = replace(wanted, status=RunStatus.waiting, ready=False, due_ms=due_ms)
        self.same(lambda store: store.amend(wanted))

    @rule(message=MESSAGES, again=st.booleans())
    def signal(self, message: p.Message, *, again: bool) -> None:
        self._send(message, again=again)

    @rule(limit=st.integers(1, 3), again=st.booleans())
    def wake_due(self, limit: int, *, again: bool) -> None:
        self.same(lambda store: store.wake_due(DUE, limit), again=again)

    @rule(ms=st.sampled_from([1, 499, 500, 1_000]), message=st.none() | MESSAGES, limit=st.integers(1, 3))
    def a_moment_passes(self, ms: int, message: p.Message | None, limit: int) -> None:
        self.clock.move(ms)
        if message is not None:
            self._send(message, again=False)
        self.wake_due(limit, again=False)

    @rule(name=SCHEDULES, rev=st.integers(0, 4), after_ms=st.none() | AFTER_MS, again=st.booleans())
    def put_schedule(self, name: str, rev: int, after_ms: int | None, *, again: bool) -> None:
        next_ms = None if after_ms is None else self.clock.wall_ms() + after_ms
        schedule = p.ScheduleRecord(schedule_id=name, rev=rev, record=b"r", next_ms=next_ms)
        self.same(lambda store: store.put_schedule(schedule), again=again)

    @rule(name=SCHEDULES, rev=st.integers(1, 4), effects=EFFECTS, again=st.booleans())
    def fire(self, name: str, rev: int, effects: tuple[p.Effect, ...], *, again: bool) -> None:
        firing = p.Firing(schedule_id=name, rev=rev, record=b"f", next_ms=None, effects=effects)
        self.same(lambda store: store.fire(firing), again=again)

    @rule(name=SCHEDULES)
    def drop_schedule(self, name: str) -> None:
        self.same(lambda store: store.drop_schedule(name))

    @rule(workflow=WORKFLOWS, version=st.sampled_from([None, "1"]), names=st.frozensets(EVENT_NAMES, max_size=2))
    def subscribe(self, workflow: str, version: str | None, names: frozenset[str]) -> None:
        self.same(lambda store: store.subscribe(workflow, version, names), again=True)

    @rule(event=EVENTS, again=st.booleans())
    def emit(self, event: p.Event, *, again: bool) -> None:
        self.same(lambda store: store.emit(event), again=again)

    @rule(event=st.sampled_from(["e1", "e2", "e3"]), workflow=WORKFLOWS, run=st.none() | SUBMITS, again=st.booleans())
    def settle_event(self, event: str, workflow: str, run: p.NewRun | None, *, again: bool) -> None:
        self.same(lambda store: store.settle_event(event, workflow, run), again=again)

    @rule(
        parent=st.none() | RUNS,
        workflow=st.none() | WORKFLOWS,
        statuses=st.none() | st.frozensets(st.sampled_from(RunStatus), max_size=3),
        limit=st.integers(1, 4),
        before=st.none() | RUNS,
    )
    def find_kin(
        self,
        parent: str | None,
        workflow: str | None,
        statuses: frozenset[RunStatus] | None,
        limit: int,
        before: str | None,
    ) -> None:
        schedule = "s1" if parent is None else None
        query = p.RunQuery(workflow=workflow, statuses=statuses, limit=limit, before=before)
        query = replace(query, parent=parent, schedule_id=schedule)
        self.same(lambda store: store.find(query))

    @rule(run=RUNS, after=st.integers(0, 3), limit=st.integers(0, 2))
    def read_what_came_and_what_was_told(self, run: str, after: int, limit: int) -> None:
        self.same(lambda store: store.read_inbox(run, after))
        self.same(lambda store: store.read_facts(run, after, limit))

    @rule()
    def read_all_that_was_told(self) -> None:
        for record in self.same(lambda store: store.find(p.RunQuery())):
            self._facts(record.run_id)

    def _facts(self, run_id: str) -> None:
        self.same(lambda store: store.read_facts(run_id, 0, 99))

    @invariant()
    def the_stores_agree_on_what_is_waited_for(self) -> None:
        if hasattr(self, "turn"):
            self.same(lambda store: store.schedules())
            self.same(lambda store: store.schedules(due_only=True))
            self.same(lambda store: store.events_pending(None, 10))
            self.same(lambda store: store.events_pending(frozenset({"a"}), 2))


# the seam is the model itself; what is carried to other shards comes a moment after the answer (see valkey/test_shards)
KINDS = [
    pytest.param(kind, marks=[pytest.mark.xdist_group(kind)] if kind == "cluster" else [])
    for kind in SITES
    if kind not in ("model", "seam", "shards", "cluster_shards")
]


@pytest.mark.parametrize("kind", KINDS)
def test_histories_of_waiting(kind: str) -> None:
    histories_on(kind, Waiting, MANY if kind in ("sqlite", "valkey") else SOME)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
def test_many_other_histories_of_waiting(kind: str) -> None:
    histories_on(kind, Waiting, LONG)
