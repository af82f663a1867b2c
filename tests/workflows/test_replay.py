"""Replay: from any prefix of a run's journal the same code goes on as if nothing had happened, other code is found out.

Random bodies run once against a host that answers commits and finishes steps in a random order. Then every prefix of
the journal is what a crash might have left: the body is replayed from it and fed the rest, and has to ask for the same
operations under the same ids, see the same things in the same order, write the same journal to the byte and end alike.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pyrula_runtime.core.entries import AttemptFailed, CancelRequested, Completed, Entry, Failed, Op, OpEntry, Withdrawn
from pyrula_runtime.core.errors import ErrorRecord
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.codec import dump_entry, load_error
from pyrula_runtime.engine.program import Request
from pyrula_runtime.engine.turn import Turn
from pyrula_runtime.stores.protocol import Ending
from tests.engine.fake_host import FakeHost, FakePerforming, claim_of, settle
from tests.workflows.programs import NOTHING, Node, Player, trees, uniquely_named

# a body that is stopped while it calls operations for a gather leaves the coroutines that were to go with them
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")

MANY = settings(max_examples=120, deadline=None)
chances = st.integers(0, 2**32).map(random.Random)  # not Hypothesis's own, which may break off in mid-run
BROKEN = ErrorRecord(type="ValueError", message="broken")


class WatchedTurn(Turn):
    """A turn that keeps what its body asked for."""

    asked_ops: list[Op]

    def asked(self, op: Op, request: Request) -> bool:
        self.asked_ops.append(op)
        return super().asked(op, request)


@dataclass
class Stage:
    """A body on its host, from a journal that is there already."""

    player: Player
    host: FakeHost
    turn: WatchedTurn

    @property
    def begun(self) -> list[FakePerforming]:
        """The steps that are being performed, in an order that does not depend on chance."""
        return [step for _, step in sorted(self.host.steps.items()) if not step.stopped]

    @property
    def ending(self) -> Ending:
        ended = self.host.ended
        assert ended is not None
        assert ended.ending is not None
        return ended.ending


async def staged(tree: Node, journal: Sequence[Entry] = (), now_ms: int = 1_000) -> Stage:
    raw = [dump_entry(entry) for entry in journal]
    player, host = Player(tree), FakeHost()
    host.journal, host.clock_ms = list(raw), now_ms
    turn = WatchedTurn(claim_of(raw, now_ms=now_ms), player.program, journal, host)
    turn.asked_ops = []
    turn.begin()
    await settle()
    return Stage(player, host, turn)


def outcome_of(begun: FakePerforming, now_ms: int) -> Completed | Failed | AttemptFailed:
    """What becomes of a step, by its name."""
    op, attempts = begun.asked.op, begun.asked.attempts
    if op.name.startswith("bad"):
        return Failed(op=op, at_ms=now_ms, error=BROKEN)
    if op.name.startswith("flaky") and attempts == 0:
        return AttemptFailed(op=op, at_ms=now_ms, number=1, error=BROKEN, retry_at_ms=now_ms + 1)
    return Completed(op=op, at_ms=now_ms, value=op.op_id)


def report(stage: Stage, entry: Completed | Failed | AttemptFailed) -> None:
    """A step tells its turn."""
    turn = stage.host.steps[entry.op.op_id].turn
    if isinstance(entry, AttemptFailed):
        turn.attempt_failed(entry)
    else:
        del stage.host.steps[entry.op.op_id]
        turn.settled(entry)


async def lived(stage: Stage, chance: random.Random, cancel_at: int = -1) -> None:
    """Go on to the end in a random order of answers and outcomes, with a cancel at some moment."""
    host = stage.host
    moment = 0
    while host.ended is None:
        host.clock_ms += 1
        moment += 1
        if moment == cancel_at:
            stage.turn.cancel()
        elif host.commits and (not stage.begun or chance.random() < 0.5):
            await host.answer()
        else:
            assert stage.begun, "the body waits for something that nobody does"
            report(stage, outcome_of(chance.choice(stage.begun), host.clock_ms))
        await settle()


async def retraced(stage: Stage, rest: Sequence[Entry]) -> None:
    """Go on to the end as the journal says; what the body withdraws it withdraws by itself."""
    host = stage.host
    await host.answer_all()
    for entry in rest:
        host.clock_ms = entry.at_ms
        if isinstance(entry, CancelRequested):
            stage.turn.cancel()
        elif isinstance(entry, Completed | Failed | AttemptFailed):
            report(stage, entry)
        await settle()
        await host.answer_all()


def could_be_left(journal: Sequence[Entry], length: int) -> bool:
    """Whether a crash can cut here: withdrawals are in one commit with the entry that made the body withdraw."""
    return length in (0, len(journal)) or not isinstance(journal[length], Withdrawn)


def raw(journal: Sequence[Entry]) -> list[bytes]:
    return [dump_entry(entry) for entry in journal]


@MANY
@given(trees, chances, st.none() | st.integers(1, 12))
def test_every_prefix_leads_to_the_same_run(tree: Node, chance: random.Random, cancel_at: int | None) -> None:
    async def check() -> None:
        first = await staged(tree)
        await lived(first, chance, cancel_at or -1)
        journal = first.host.entries
        for length in range(len(journal) + 1):
            resume_ms = journal[length].at_ms if length < len(journal) else first.host.clock_ms
            again = await staged(tree, journal[:length], resume_ms)
            done = {entry.op.op_id for entry in journal[:length] if isinstance(entry, Completed | Failed | Withdrawn)}
            assert done.isdisjoint(again.host.steps), "what is recorded was done again"
            await retraced(again, journal[length:])
            assert again.player.trace == first.player.trace
            assert again.turn.asked_ops == first.turn.asked_ops
            assert again.ending == first.ending
            if could_be_left(journal, length):
                assert again.host.journal == raw(journal)

    asyncio.run(check())


@MANY
@given(trees, chances, st.none() | st.integers(1, 12))
def test_whatever_comes_after_a_prefix_can_be_replayed(tree: Node, chance: random.Random, cut: int | None) -> None:
    async def check() -> None:
        first = await staged(tree)
        await lived(first, chance)
        journal = first.host.entries[: cut or 0]
        other = await staged(tree, journal, 2_000)
        await lived(other, chance)
        assert other.ending.status is not RunStatus.paused
        assert other.host.entries[: len(journal)] == journal
        again = await staged(tree, other.host.entries, other.host.clock_ms)
        await again.host.answer_all()
        assert (again.player.trace, again.ending) == (other.player.trace, other.ending)

    asyncio.run(check())


async def told_of_change(tree: Node, other: Node, journal: Sequence[Entry]) -> str:
    """The mismatch between a journal of `tree` and other code."""
    changed = await staged(other, journal, 9_000)
    begun = list(changed.host.steps)
    await changed.host.answer_all()
    assert changed.ending.status is RunStatus.paused
    error = load_error(changed.ending.error or b"")
    assert error.type == "JournalMismatch"
    assert begun == [], "something was done before the mismatch was seen"
    assert changed.host.journal == raw(journal), "a mismatch wrote entries"
    return error.message


@MANY
@given(trees.map(uniquely_named), chances)
def test_changed_code_pauses_the_run(tree: Node, chance: random.Random) -> None:
    async def check() -> None:
        first = await staged(tree)
        await lived(first, chance)
        journal = first.host.entries
        recorded = {entry.op.name: entry for entry in reversed(journal) if isinstance(entry, OpEntry)}
        steps = sorted(recorded.keys() & {node.name for node in tree if node.kind == "step"})
        assume(steps)
        name = chance.choice(steps)
        renamed = await told_of_change(tree, tree.with_step(name, Node("step", "ok renamed")), journal)
        assert f"step {name!r}" in renamed
        assert "'ok renamed'" in renamed or "more" in renamed or isinstance(recorded[name], Withdrawn)
        await told_of_change(tree, tree.with_step(name, NOTHING), journal)

    asyncio.run(check())


A, B, C = (Node("step", f"ok {letter}") for letter in "abc")


@pytest.mark.parametrize(
    ("tree", "other", "message"),
    [
        (
            Node("chain", parts=(A, B)),
            Node("chain", parts=(A, C)),
            "entry 2 is step 'ok b' .*, but the code asks for step 'ok c'",
        ),
        (
            Node("chain", parts=(A, B)),
            Node("chain", parts=(B,)),
            "entry 1 is step 'ok a' .*, but the code asks for step 'ok b'",
        ),
        (Node("chain", parts=(A, B)), A, "entry 2 is step 'ok b' .*, but the code ended before it"),
        (Node("chain", parts=(A, B)), NOTHING, "entry 1 is step 'ok a' .*, but the code ended before it"),
        (
            Node("chain", parts=(A, A)),
            Node("gather", parts=(A, Node("chain", parts=(A,)))),
            "entry 2 is step 'ok a' .ok a#2., but the code asks for step 'ok a' .*",
        ),
    ],
)
async def test_a_mismatch_names_both_sides(tree: Node, other: Node, message: str) -> None:
    first = await staged(tree)
    await lived(first, random.Random(1))
    told = await told_of_change(tree, other, first.host.entries)
    assert re.search(message, told), told


async def test_steps_that_do_not_depend_on_each_other_may_swap_places() -> None:
    first = await staged(Node("gather", parts=(A, B)))
    await lived(first, random.Random(1))
    again = await staged(Node("gather", parts=(B, A)), first.host.entries, 9_000)
    await again.host.answer_all()
    assert again.ending.status is RunStatus.completed
