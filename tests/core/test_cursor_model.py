"""The cursor against random bodies: whatever prefix of a journal is left, replay leads back to where the run was.

A body is a pure function of what enters it, so it can be written down as *stretches*: what it asks for and withdraws
from one entry to the next. Random moves make such a body and its journal on a live cursor; then every prefix of that
journal is replayed by the same stretches on a fresh cursor, and what it says is compared with what the plain list of
entries says.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrula_runtime.core.cursor import Answer, Asked, Cursor
from pyrula_runtime.core.entries import (
    AttemptFailed,
    Completed,
    Entry,
    Failed,
    Op,
    OpEntry,
    Requeued,
    Withdrawn,
    in_force,
)
from pyrula_runtime.core.errors import JournalMismatch
from tests.core.journals import attempt, cancel, completed, deadline, failed, op, requeued, withdrawn
from tests.core.patience import patient

Act = tuple[str, Op]
OUTCOMES = (Completed, Failed, Withdrawn)


@dataclass(slots=True)
class Stretch:
    """What the body does when the entry at `place` has entered it (its start: None)."""

    place: int | None
    acts: list[Act] = field(default_factory=list)


@dataclass(slots=True)
class Body:
    """A body and the journal it leaves, made on a live cursor by random moves."""

    cursor: Cursor = field(default_factory=lambda: Cursor([]))
    journal: list[Entry] = field(default_factory=list)
    stretches: list[Stretch] = field(default_factory=lambda: [Stretch(None)])
    asked: list[Op] = field(default_factory=list)
    still_open: list[Op] = field(default_factory=list)
    attempts: dict[Op, int] = field(default_factory=dict)

    def move(self, kind: str, choice: int) -> None:
        """Ask, withdraw, or let something in; `choice` says which operation it is about."""
        if kind == "ask":
            self.act("ask", op(f"s#{len(self.asked)}"))
        elif kind == "withdraw" and self.asked:
            self.act("withdraw", self.asked[choice % len(self.asked)])
        elif kind == "cancel":
            self.enters(cancel())
        elif kind == "deadline":
            self.enters(deadline())
        elif self.still_open:
            self.enters(self.outcome(kind, self.still_open[choice % len(self.still_open)]))

    def act(self, kind: str, about: Op) -> None:
        self.stretches[-1].acts.append((kind, about))
        if kind == "ask":
            self.asked.append(about)
            self.still_open.append(about)
            assert self.cursor.ask(about) is Answer.perform
            return
        assert self.cursor.withdraw(about) is (about in self.still_open)
        if about in self.still_open:
            self.append(withdrawn(about.op_id))

    def outcome(self, kind: str, about: Op) -> Entry:
        if kind == "attempt":
            self.attempts[about] = self.attempts.get(about, 0) + 1
            return attempt(about.op_id, self.attempts[about], at_ms=len(self.journal))
        return failed(about.op_id) if kind == "fail" else completed(about.op_id, len(self.journal))

    def enters(self, entry: Entry) -> None:
        self.stretches.append(Stretch(len(self.journal)))
        self.append(entry)

    def append(self, entry: Entry) -> None:
        self.journal.append(entry)
        self.cursor.append(entry)
        if isinstance(entry, OUTCOMES):
            self.still_open.remove(entry.op)


MOVES = ["ask", "ask", "withdraw", "complete", "fail", "attempt", "cancel", "deadline"]


@st.composite
def bodies(draw: st.DrawFn) -> Body:
    body = Body()
    for kind, choice in draw(st.lists(st.tuples(st.sampled_from(MOVES), st.integers(0, 9)), max_size=40)):
        body.move(kind, choice)
    return body


class Replay:
    """A fresh cursor over a stored journal, led by the stretches of the body that wrote it."""

    def __init__(self, stored: list[Entry], stretches: Iterable[Stretch], places: int | None = None) -> None:
        self.cursor = Cursor(stored)
        self._in_force = {position for position, _ in in_force(stored)}
        self._places = len(stored) if places is None else places
        self.answers: dict[Op, Answer] = {}
        self.appended: list[Entry] = []
        self._acts = {stretch.place: stretch.acts for stretch in stretches}

    def run(self) -> None:
        """From the body's start to the end of what is recorded, as a turn does it.

        Acts that the model noted at an attempt come at its place even if a requeue voided the attempt itself.
        """
        self._go_on(None)
        for place in range(self._places):
            if place in self._in_force:
                assert self.cursor.take_unperformed() == []
                self.cursor.replay_next()
            self._go_on(place)
        assert not self.cursor.replaying
        for about in self.cursor.finish_replay():
            self._append(withdrawn(about.op_id))

    def enters(self, place: int, entry: Entry) -> None:
        """A live entry."""
        self._append(entry)
        self._go_on(place)

    def _go_on(self, place: int | None) -> None:
        for kind, about in self._acts.get(place, []):
            if kind == "ask":
                self.answers[about] = self.cursor.ask(about)
            elif self.cursor.withdraw(about):
                self._append(withdrawn(about.op_id))

    def _append(self, entry: Entry) -> None:
        self.appended.append(entry)
        self.cursor.append(entry)


def of(entries: Iterable[Entry], *kinds: type[OpEntry]) -> set[Op]:
    """The operations that have an entry of these kinds."""
    return {entry.op for entry in entries if isinstance(entry, kinds)}


def check(body: Body, kept: int, replay: Replay, *, tried_anew: bool = False) -> None:
    """Compare a finished replay of the first `kept` entries with what the entries themselves say.

    `tried_anew` says that a requeue gave the open operations all their attempts back.
    """
    prefix = body.journal[:kept]
    begun = [each for each in body.stretches if each.place is None or each.place < kept]
    later = [each.place for each in body.stretches if each.place is not None and each.place >= kept]
    reached = body.journal[: min(later, default=len(body.journal))]
    asked = [about for stretch in begun for kind, about in stretch.acts if kind == "ask"]

    assert prefix + replay.appended == reached
    settled = of(prefix, *OUTCOMES)
    assert replay.answers == {each: Answer.recorded if each in settled else Answer.perform for each in asked}
    closed, unwanted = of(reached, *OUTCOMES), of(reached, Withdrawn)
    assert [each for each in asked if replay.cursor.is_open(each)] == [each for each in asked if each not in closed]
    assert [each for each in asked if not replay.cursor.wants(each)] == [each for each in asked if each in unwanted]
    tried = {entry.op: entry for entry in prefix if isinstance(entry, AttemptFailed) and not tried_anew}
    assert replay.cursor.take_unperformed() == [
        Asked(each, tried[each].number, tried[each].retry_at_ms) if each in tried else Asked(each)
        for each in asked
        if each not in closed
    ]
    replay.cursor.check_ended()


@patient
@given(body=bodies())
def test_every_prefix_leads_back_to_where_the_run_was(body: Body) -> None:
    for kept in range(len(body.journal) + 1):
        replay = Replay(body.journal[:kept], body.stretches)
        replay.run()
        check(body, kept, replay)
        assert replay.cursor.length == kept + len(replay.appended)


@patient
@given(body=bodies())
def test_a_run_that_goes_on_from_any_prefix_ends_as_the_undisturbed_one(body: Body) -> None:
    for kept in range(len(body.journal) + 1):
        replay = Replay(body.journal[:kept], body.stretches)
        replay.run()
        for stretch in body.stretches:
            if stretch.place is not None and stretch.place >= kept:
                replay.enters(stretch.place, body.journal[stretch.place])
        assert body.journal[:kept] + replay.appended == body.journal
        assert [each for each in body.asked if replay.cursor.is_open(each)] == body.still_open
        assert [replay.cursor.wants(each) for each in body.asked] == [body.cursor.wants(each) for each in body.asked]
        assert replay.cursor.length == body.cursor.length == len(body.journal)


@patient
@given(body=bodies(), data=st.data())
def test_a_requeued_journal_replays_like_the_prefix_that_still_counts(body: Body, data: st.DataObject) -> None:
    kept = data.draw(st.integers(0, len(body.journal)))
    first = data.draw(st.integers(kept, len(body.journal)))
    mark: Requeued = requeued(kept)
    replay = Replay([*body.journal[:first], mark, *body.journal[kept:first], mark], body.stretches, kept)
    assert replay.cursor.length == 2 * first - kept + 2
    replay.run()
    check(body, kept, replay, tried_anew=True)


@patient
@given(body=bodies(), data=st.data())
@pytest.mark.parametrize("kind", ["ask", "withdraw"])
def test_code_that_no_longer_does_what_is_recorded_is_found_out_in_replay(
    kind: str, body: Body, data: st.DataObject
) -> None:
    body.move("ask", 0)
    body.move("withdraw", len(body.asked) - 1)
    entries = [entry for entry in body.journal if isinstance(entry, OpEntry if kind == "ask" else Withdrawn)]
    lost = data.draw(st.sampled_from(entries)).op
    gone = [("ask", lost), ("withdraw", lost)] if kind == "ask" else [("withdraw", lost)]
    changed = [Stretch(each.place, [act for act in each.acts if act not in gone]) for each in body.stretches]
    replay = Replay(body.journal, changed)
    with pytest.raises(JournalMismatch) as raised:
        replay.run()
    assert str(lost) in str(raised.value)
    assert replay.appended == []
    assert replay.cursor.take_unperformed() == []
