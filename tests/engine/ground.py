"""A store in memory and turns of real workflows on it, in which nothing happens but what a test makes happen.

Every write, every read of an inbox, every step waits until the test lets it through, and a turn may be lost at any
moment, also after a write whose answer it never heard. Time stands still until it is moved.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyrula_runtime.core.cursor import Asked
from pyrula_runtime.core.entries import Completed, Entry
from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.core.status import DUE, RunEvent, RunStatus, after
from pyrula_runtime.engine.body import AsyncBody, Body
from pyrula_runtime.engine.codec import load_entry, load_json
from pyrula_runtime.engine.payloads import PLAIN
from pyrula_runtime.engine.program import Program, StepCall
from pyrula_runtime.engine.turn import Turn
from pyrula_runtime.options import Replay
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.memory.store import MemoryStore
from pyrula_runtime.stores.memory.world import World
from pyrula_runtime.stores.protocol import Claim, ClaimRequest, Commit, Committed, Release, RunRecord, Serves
from tests.engine.fake_host import FakePerforming

TTL_MS = 30_000


@dataclass
class Write:
    """A commit on its way."""

    turn: Turn
    commit: Commit
    answer: asyncio.Future[Committed]


class Ground:
    """The turns' host."""

    lock_ttl_ms = TTL_MS
    replay: Replay = "when-resumed"
    payloads = PLAIN

    def __init__(self, *programs: Program) -> None:
        self.clock = ManualClock()
        self.replay_ms = 0  # how long a turn takes to come to where the one before it was
        self.store = MemoryStore(World(self.clock))
        self.programs = {program.name: program for program in programs}
        self.turns: dict[str, Turn] = {}
        self.writes: list[Write] = []
        self.steps: list[FakePerforming] = []
        self.reads: list[tuple[Turn, int]] = []
        self.made: Counter[str] = Counter()  # how often each step was made
        self.faults: list[Exception] = []

    # what a turn needs

    in_haste = False
    short_ms = 200

    def mono_ms(self) -> int:
        return self.clock.mono_ms()

    def make_body(self, turn: Turn) -> Body:
        start, given = turn.program.start, load_json(turn.claim.input)
        assert start is not None

        async def body(operations: AsyncBody) -> Any:
            self.clock.move(self.replay_ms)
            return await start(operations, given)

        return AsyncBody(turn, body)

    def perform(self, turn: Turn, asked: Asked, call: StepCall) -> FakePerforming:
        self.made[f"{turn.run_id}:{asked.op.op_id}"] += 1
        begun = FakePerforming(turn, asked)
        self.steps.append(begun)
        return begun

    def read_inbox(self, turn: Turn, after_seq: int) -> None:
        self.reads.append((turn, after_seq))

    def new_run_id(self, now_ms: int, entropy: bytes) -> str:
        return self.store.new_run_id(now_ms, entropy)

    def commit(self, commit: Commit) -> asyncio.Future[Committed]:
        turn = self.turns[commit.token.run_id]
        answer: asyncio.Future[Committed] = asyncio.get_running_loop().create_future()
        self.writes.append(Write(turn, commit, answer))
        return answer

    def claim_request(self) -> ClaimRequest | None:
        return None

    def outage(self, error: StoreUnavailable) -> None:
        self.faults.append(error)

    def adopt(self, claims: Sequence[Claim]) -> None: ...

    def over(self, turn: Turn, claims: Sequence[Claim] | None) -> None:
        self._forget(turn)

    def lost(self, turn: Turn, reason: str) -> None:
        self._forget(turn)

    def again(self, turn: Turn) -> None:
        raise AssertionError(f"turn {turn.run_id} is replayed only as it resumes")

    def broken(self, turn: Turn, error: Exception) -> None:
        self.faults.append(error)
        self._forget(turn)

    def note(self, turn: Turn, level: int, message: str, *args: object) -> None: ...

    def _forget(self, turn: Turn) -> None:
        if self.turns.get(turn.run_id) is turn:
            del self.turns[turn.run_id]

    # what a test makes happen

    async def claim(self) -> bool:
        """Begin the turn of the next run; False if there is none to claim."""
        claims = await self.store.claim(
            ClaimRequest(
                incarnation="w",
                serves=tuple(Serves(workflow=name, version=None) for name in self.programs),
                limit=1,
                lock_ttl_ms=TTL_MS,
                to_status=after(RunStatus.queued, RunEvent.claim),
            )
        )
        for claim in claims:
            journal = list(claim.journal)
            while len(journal) < claim.journal_len:
                journal += await self.store.read_journal(claim.token.run_id, len(journal))
            turn = Turn(claim, self.programs[claim.workflow], [load_entry(raw) for raw in journal], self)
            self.turns[turn.run_id] = turn
            turn.begin()
        return bool(claims)

    async def write(self, at: int, *, is_heard: bool = True) -> None:
        """Let a commit through; its turn is lost if it does not hear the answer."""
        write = self.writes.pop(at)
        answer = await self.store.commit(write.commit)
        if is_heard and not write.turn.is_over:
            write.answer.set_result(answer)
            for _ in range(4):
                await asyncio.sleep(0)
        else:
            await self.lose(write.turn)

    async def lose(self, turn: Turn) -> None:
        """The turn's worker dies; whatever it held is freed."""
        turn.suspend()
        self._forget(turn)
        self.writes = [each for each in self.writes if each.turn is not turn]
        self.steps = [each for each in self.steps if each.turn is not turn]
        self.reads = [each for each in self.reads if each[0] is not turn]
        status = after(RunStatus.running, RunEvent.release)
        await self.store.release(Release(token=turn.claim.token, status=status, ready=True))

    def finish_step(self, at: int) -> None:
        """A step gives its operation's id."""
        step = self.steps.pop(at)
        if not step.stopped:
            op = step.asked.op
            step.turn.settled(Completed(op=op, at_ms=step.turn.store_ms(), value=op.op_id))

    async def read(self, at: int) -> None:
        """An inbox is read."""
        turn, after_seq = self.reads.pop(at)
        page = await self.store.read_inbox(turn.run_id, after_seq)
        if not turn.is_over:
            turn.letters(page)

    async def renew(self) -> None:
        """Locks are renewed, and turns hear of cancels and messages."""
        turns = list(self.turns.values())
        renewed = await self.store.renew([turn.claim.token for turn in turns], TTL_MS)
        for turn in turns:
            if turn.run_id in renewed.cancelled:
                turn.cancel()
            if turn.run_id in renewed.inbox:
                turn.heard(renewed.inbox[turn.run_id])

    async def pass_time(self, ms: int) -> None:
        """Time passes: timers wake runs, and turns look at their own."""
        self.clock.move(ms)
        await self.store.wake_due(DUE, 500)
        for turn in list(self.turns.values()):
            turn.parked()

    async def journal(self, run: RunRecord) -> list[Entry]:
        """What a run has recorded."""
        raw: list[bytes] = []
        while len(raw) < run.journal_len:
            raw += await self.store.read_journal(run.run_id, len(raw))
        return [load_entry(each) for each in raw]
