"""A host for turns without threads, store or clock: every commit and every step waits until the test answers it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from pyrula_runtime.core.cursor import Asked
from pyrula_runtime.core.entries import Completed, Entry, Failed, Json, OpKind
from pyrula_runtime.core.errors import ErrorRecord, StoreUnavailable
from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.core.tree import OnEnd
from pyrula_runtime.engine.body import AsyncBody, Body
from pyrula_runtime.engine.codec import load_entry
from pyrula_runtime.engine.payloads import PLAIN
from pyrula_runtime.engine.program import ChildCall, Operations, Program, StepCall, TellCall, WaitCall
from pyrula_runtime.engine.turn import Turn
from pyrula_runtime.options import Replay
from pyrula_runtime.stores.protocol import Append, Claim, ClaimRequest, Commit, Committed, NewRun


def same(value: Any) -> Any:
    """Values of these tests are JSON already."""
    return value


def call(name: str = "work", **policy: Any) -> StepCall:
    """A step whose function is never called: the test plays the outcome."""
    return StepCall(name=name, call=dict, is_async=False, to_json=same, from_json=same, **policy)


class Ops:
    """What the bodies of these tests get: a step by name, a sleep, a signal."""

    def __init__(self, operations: Operations) -> None:
        self.operations = operations

    def step(self, name: str = "work") -> Awaitable[Any]:
        """Ask for a step."""
        return self.operations.ask(call(name))

    def sleep(self, ms: int) -> Awaitable[Any]:
        """Wait for so many milliseconds."""
        return self.operations.ask(WaitCall(kind=OpKind.sleep, name="sleep", for_ms=ms))

    def signal(self, name: str = "go", for_ms: int | None = None) -> Awaitable[Any]:
        """Wait for a signal."""
        return self.operations.ask(WaitCall(kind=OpKind.signal, name=name, hears=name, for_ms=for_ms, late="too late"))

    def child(self, name: str = "kid", on_end: OnEnd = OnEnd.cancel) -> Awaitable[Any]:
        """Have a child run, and wait for its result."""
        return self.operations.ask(child_call(name, on_end))

    def tell(self, run_id: str, signal: str | None = None) -> Awaitable[Any]:
        """Tell a run something."""
        return self.operations.ask(TellCall(run_id=run_id, signal=signal, payload=b'"hello"'))


def child_call(name: str = "kid", on_end: OnEnd = OnEnd.cancel) -> ChildCall:
    """A child of this workflow."""
    run = NewRun(run_id="", workflow=name, version=None, input=b"7", digest="d", status=RunStatus.queued)
    return ChildCall(run=run, on_end=on_end, from_json=same)


BodyFunction = Callable[[Ops], Coroutine[Any, Any, Any]]


def program(body: BodyFunction, timeout_s: float | None = None, **policy: Any) -> Program:
    """A workflow around a coroutine function that takes `Ops`."""

    def start(operations: Operations, _input: Json) -> Coroutine[Any, Any, Any]:
        return body(Ops(operations))

    return Program(name="flow", version=None, start=start, to_json=same, timeout_s=timeout_s, **policy)


def claim_of(journal: Sequence[bytes] = (), **fields: Any) -> Claim:
    """A claim of the run `r` with this journal."""
    token = Token(run_id="r", fence=1, nonce="n")
    values: dict[str, Any] = {
        "token": token,
        "workflow": "flow",
        "version": None,
        "input": b"null",
        "journal": tuple(journal),
        "journal_len": len(journal),
        "journal_bytes": sum(map(len, journal)),
        "created_ms": 1_000,
        "started_ms": 1_000,
        "now_ms": 1_000,
        "cancel_requested": False,
    }
    return Claim(**values | fields)


class FakePerforming:
    """A step that the turn began."""

    def __init__(self, turn: Turn, asked: Asked) -> None:
        self.turn = turn
        self.asked = asked
        self.stopped = False
        self.idle_until_ms: int | None = None

    def stop(self) -> None:
        self.stopped = True


class FakeHost:
    """Keeps what the turn did, in order; `log` names steps begun and commits sent."""

    lock_ttl_ms = 30_000
    replay: Replay = "when-resumed"
    payloads = PLAIN
    short_ms = 200

    def __init__(self) -> None:
        self.clock_ms = 1_000
        self.in_haste = False
        self.log: list[str] = []
        self.steps: dict[str, FakePerforming] = {}
        self.commits: list[tuple[Commit, asyncio.Future[Committed]]] = []
        self.journal: list[bytes] = []
        self.ended: Commit | None = None
        self.lost_because: str | None = None
        self.broken_by: Exception | None = None
        self.accepted: list[Claim] = []
        self.next_claims: tuple[Claim, ...] = ()
        self.committing = asyncio.Event()
        self.reading: list[int] = []  # after which messages somebody reads the inbox

    def mono_ms(self) -> int:
        return self.clock_ms

    def make_body(self, turn: Turn) -> Body:
        start = turn.program.start
        assert start is not None
        return AsyncBody(turn, lambda operations: start(operations, None))

    def perform(self, turn: Turn, asked: Asked, step: StepCall) -> FakePerforming:
        self.log.append(f"begin {asked.op.op_id}")
        begun = self.steps[asked.op.op_id] = FakePerforming(turn, asked)
        return begun

    def new_run_id(self, now_ms: int, entropy: bytes) -> str:
        return f"child-{now_ms}-{entropy.hex()}"

    def read_inbox(self, turn: Turn, after_seq: int) -> None:
        self.reading.append(after_seq)

    def commit(self, commit: Commit) -> asyncio.Future[Committed]:
        self.log.append(f"commit {len(commit.entries)}")
        answer: asyncio.Future[Committed] = asyncio.get_running_loop().create_future()
        self.commits.append((commit, answer))
        self.committing.set()
        return answer

    def claim_request(self) -> ClaimRequest | None:
        return None

    def outage(self, error: StoreUnavailable) -> None:
        self.log.append(f"outage: {error}")

    def adopt(self, claims: Sequence[Claim]) -> None:
        self.accepted += claims

    def again(self, turn: Turn) -> None:
        self.log.append("again")
        turn.suspend()

    def over(self, turn: Turn, claims: Sequence[Claim] | None) -> None:
        self.log.append("over")

    def lost(self, turn: Turn, reason: str) -> None:
        self.lost_because = reason

    def broken(self, turn: Turn, error: Exception) -> None:
        self.broken_by = error

    def note(self, turn: Turn, level: int, message: str, *args: object) -> None:
        self.log.append(message % args)

    # what a test plays

    def turn(self, body: BodyFunction, journal: Sequence[Entry] = (), *, claim: Claim | None = None) -> Turn:
        """A turn of `body`, begun."""
        claim = claim or claim_of()
        turn = Turn(claim, program(body), journal, self)
        turn.begin()
        return turn

    async def answer(
        self, append: Append = Append.done, *, cancel_requested: bool = False, inbox_len: int = 0
    ) -> Commit:
        """Answer the oldest commit."""
        commit, future = self.commits.pop(0)
        if append is Append.done:
            self.journal += commit.entries
            self.ended = commit if commit.ending is not None else None
        future.set_result(
            Committed(
                append=append,
                length=len(self.journal),
                cancel_requested=cancel_requested,
                claims=self.next_claims,
                inbox_len=inbox_len,
            )
        )
        await settle()
        return commit

    async def fail_commit(self, error: Exception) -> Commit:
        """The store could not say what became of the oldest commit."""
        commit, future = self.commits.pop(0)
        future.set_exception(error)
        await settle()
        return commit

    def complete(self, op_id: str, value: Json = None) -> None:
        """A step gives a value."""
        begun = self.steps.pop(op_id)
        begun.turn.settled(Completed(op=begun.asked.op, at_ms=self.clock_ms, value=value))

    def fail(self, op_id: str, error_type: str = "ValueError", message: str = "no") -> None:
        """A step gives up."""
        begun = self.steps.pop(op_id)
        error = ErrorRecord(type=error_type, message=message)
        begun.turn.settled(Failed(op=begun.asked.op, at_ms=self.clock_ms, error=error))

    async def answer_all(self) -> None:
        """Answer commits until none is open."""
        while self.commits:
            await self.answer()

    @property
    def entries(self) -> list[Entry]:
        """The committed journal."""
        return [load_entry(raw) for raw in self.journal]

    @property
    def status(self) -> RunStatus | None:
        """How the run ended, if it did."""
        return self.ended.ending.status if self.ended and self.ended.ending else None


async def settle() -> None:
    """Let the loop's ready callbacks run: the answers to commits are delivered by them."""
    for _ in range(4):
        await asyncio.sleep(0)
