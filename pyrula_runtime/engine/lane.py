"""The lane: the thread and event loop on which a worker's turns are driven and its async steps run.

Everything of a turn happens on the lane's thread; other threads reach it through `post`. The lane commits straight to
the store's writer and, when a run ends, claims the next in the same call: only the first runs after idleness come from
the claim loop on the control thread. Plain (sync) workflows and steps get threads of two pools: a body that waits for
its step must never keep that step from starting.

A turn that ends by itself passes its slot to the run that its last commit claimed. A turn that is stopped (drain, lost
lock) hands its run back only when no thread of it is left in user code, or when the caller's patience is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from pyrula_runtime.blackbox import NO_SLOT
from pyrula_runtime.core.cursor import Asked
from pyrula_runtime.core.errors import ErrorRecord, InputError, StoreUnavailable
from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import RunEvent, RunStatus, after
from pyrula_runtime.engine.body import AsyncBody, Body, SyncBody
from pyrula_runtime.engine.codec import dump_error, load_entry, load_json
from pyrula_runtime.engine.current import Current, current
from pyrula_runtime.engine.posting import post
from pyrula_runtime.engine.presence import DrivenBody, Presence, ThreadSpan, Unrecorded, lane_loop, mono_ms
from pyrula_runtime.engine.program import Program, StepCall
from pyrula_runtime.engine.slots import Slots
from pyrula_runtime.engine.step_run import StepRun
from pyrula_runtime.engine.threads import Job, Threads
from pyrula_runtime.engine.turn import Turn
from pyrula_runtime.stores.protocol import Claim, ClaimRequest, Commit, Committed, Release, Serves, Store

log = logging.getLogger("pyrula.lane")


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneSetup:
    """What a lane is made of."""

    store: Store
    programs: Mapping[str, Program]
    incarnation: str
    slots: Slots
    lock_ttl_ms: int
    now_ms: Callable[[], int]
    on_free_slot: Callable[[], None]  # any thread: a slot came free that no claim took over
    on_outage: Callable[[StoreUnavailable], None]  # any thread: the store could not be used
    on_failed: Callable[[BaseException], None]  # any thread: the lane cannot go on
    presence: Presence = field(default_factory=Unrecorded)

    def claim_request(self, limit: int) -> ClaimRequest:
        """A request for at most `limit` runs of the programs served here."""
        return ClaimRequest(
            incarnation=self.incarnation,
            serves=tuple(Serves(workflow=p.name, version=p.version) for p in self.programs.values()),
            limit=limit,
            lock_ttl_ms=self.lock_ttl_ms,
            to_status=after(RunStatus.queued, RunEvent.claim),
        )


class Lane:
    """One lane; it is the turns' `Host` and the steps' `StepPlace`."""

    def __init__(self, setup: LaneSetup) -> None:
        self.lock_ttl_ms = setup.lock_ttl_ms
        self.loop = lane_loop(setup.presence)
        self.thread = threading.Thread(target=self._run, name="pyrula-lane", daemon=True)
        self.driving: Current | None = None  # whose body is running right now
        self.turns_done = 0
        self.draining = False
        self._setup = setup
        self._presence = setup.presence
        self._store = setup.store
        self._one = setup.claim_request(1)
        self._turns: dict[str, Turn] = {}
        self._records: dict[Token, int] = {}  # where the black box has a turn's run
        self._coming: set[Token] = set()  # claimed, and not yet a turn
        self._forsworn: set[Token] = set()  # dead before they became a turn
        self._threads_of: dict[str, int] = {}
        self._thread_left = asyncio.Event()
        self._chores: set[asyncio.Task[None]] = set()
        self._stopping = False
        self._step_threads = Threads(setup.slots.capacity, "pyrula-step")
        self._body_threads = Threads(setup.slots.capacity, "pyrula-body")

    # from other threads

    @property
    def serves(self) -> tuple[Serves, ...]:
        """What this lane can execute."""
        return self._one.serves

    def start(self) -> None:
        """Start the thread."""
        self.thread.start()

    @property
    def is_over(self) -> bool:
        """Whether nothing will ever happen on this lane again."""
        return self.loop.is_closed()

    def post(self, callback: Callable[..., object], *args: object) -> None:
        """Run `callback` on the lane's thread soon, unless it is over."""
        post(self.loop, callback, *args)

    def beat(self) -> None:
        """Write down that the lane turns; to be called on its thread."""
        self._presence.beat_lane(mono_ms())

    def take(self, claims: Sequence[Claim]) -> None:
        """Start a turn for each claim soon; their slots are taken already."""
        self._coming.update(claim.token for claim in claims)
        self.post(self.accept, claims)

    def held(self) -> list[Token]:
        """The tokens of all runs that are turns of this lane, or soon will be."""
        coming = list(self._coming)  # first: a claim goes from there to the turns, and must not be missed on its way
        turns = list(self._turns.values())
        return list(dict.fromkeys([*coming, *(turn.claim.token for turn in turns)]))

    def forswear(self, token: Token) -> bool:
        """Never start a turn for this token, if there is none yet; False if there is."""
        self._forsworn.add(token)  # first: the lane looks here after it has noted a claim, so one sees the other
        if token not in self.held():
            return True
        self._forsworn.discard(token)
        return False

    def stop(self) -> None:
        """End the loop and the pools; threads in user code are left to themselves."""
        self._stopping = True
        self._step_threads.shutdown()
        self._body_threads.shutdown()
        self.post(self.loop.stop)

    def _run(self) -> None:
        self._presence.lane_thread(threading.get_native_id())
        asyncio.set_event_loop(self.loop)
        self.loop.set_task_factory(cast(Any, _tagging_factory))
        self.loop.set_exception_handler(self._on_callback_error)
        try:
            while not self._stopping:
                try:
                    self.loop.run_forever()
                except (SystemExit, KeyboardInterrupt):  # raised by a step, whose task has kept it as its outcome
                    continue
                break
        finally:
            self.loop.close()
            if not self._stopping:
                self._setup.on_failed(RuntimeError("the lane's event loop was stopped by user code"))

    def _on_callback_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        handle = context.get("handle")
        error = context.get("exception")
        whose = None if handle is None else handle._context.get(current)
        log.error("%s", context.get("message"), exc_info=error, extra=_fields(whose))
        if handle is not None and whose is None and error is not None:
            self._setup.on_failed(error)

    # on the lane's thread: claims in

    def accept(self, claims: Sequence[Claim]) -> None:
        """Start a turn for each claim; their slots are taken already."""
        self._coming.update(claim.token for claim in claims)
        for claim in claims:
            if self._turns_away(claim):
                continue
            if len(claim.journal) < claim.journal_len:
                self._spawn(self._read_on(claim))
            else:
                self._begin(claim, claim.journal)

    def adopt(self, claims: Sequence[Claim]) -> None:
        """Start a turn for each claim that came for a turn which had given its slot back by then."""
        self._setup.slots.overfill(len(claims))
        self.accept(claims)

    async def _read_on(self, claim: Claim) -> None:
        journal = list(claim.journal)
        try:
            while len(journal) < claim.journal_len:
                journal += await self._store.read_journal(claim.token.run_id, len(journal))
        except StoreUnavailable as error:
            log.warning("cannot read the journal: %s", error, extra={"run_id": claim.token.run_id})
            self._hand_back(claim)
            return
        if not self._turns_away(claim):
            self._begin(claim, journal)

    def _turns_away(self, claim: Claim) -> bool:
        """Whether no turn may begin: the token died meanwhile, or the worker drains."""
        if claim.token in self._forsworn:
            self._coming.discard(claim.token)
            self._forsworn.discard(claim.token)
            self._free_slot()
            return True
        if self.draining:
            self._hand_back(claim)
        return self.draining

    def _begin(self, claim: Claim, journal: Sequence[bytes]) -> None:
        program = self._setup.programs[claim.workflow]
        try:
            turn = Turn(claim, program, [load_entry(raw) for raw in journal], self)
        except (ValueError, KeyError) as error:
            record = ErrorRecord(type="JournalMismatch", message=f"the journal cannot be read: {error!r}")
            self._hand_back(claim, error=dump_error(record))
            return
        self._turns[turn.run_id] = turn
        self._records[claim.token] = self._presence.hold(turn.run_id, claim.token.fence)
        self._coming.discard(claim.token)
        turn.begin()

    def _hand_back(self, claim: Claim, error: bytes | None = None) -> None:
        """Give a claim back that never became a turn; with an error the run is paused until somebody looks."""
        event = RunEvent.release if error is None else RunEvent.mismatch
        status = after(RunStatus.running, event)
        release = Release(token=claim.token, status=status, ready=error is None, error=error)
        self._coming.discard(claim.token)
        self._spawn(self._release(release))
        self._free_slot()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)

    async def _release(self, release: Release) -> None:
        try:
            await self._store.release(release)
        except StoreUnavailable as error:  # it is a stray from now on (see strays), or a burial frees it
            log.warning("cannot hand the run back: %s", error, extra={"run_id": release.token.run_id})

    # on the lane's thread: what turns need (Host, StepPlace)

    def now_ms(self) -> int:
        return self._setup.now_ms()

    def chance(self) -> float:
        return random.random()  # jitter, no secret

    def make_body(self, turn: Turn) -> Body:
        program, claim = turn.program, turn.claim
        whose = Current(run_id=turn.run_id, workflow=program.name)
        if program.start is not None:
            start = program.start

            async def body(operations: AsyncBody) -> Any:
                current.set(whose)
                return await start(operations, load_json(claim.input))

            return DrivenBody(AsyncBody(turn, body), whose, self, self._presence)

        run = program.run
        if run is None:
            raise InputError(f"program {program.name!r} has no body")

        def threaded(operations: SyncBody) -> Any:
            current.set(whose)
            return run(operations, load_json(claim.input))

        span = ThreadSpan(self._presence, whose.place)

        def in_thread(work: Callable[[], None]) -> Job:
            return self._in_thread(self._body_threads, turn.run_id, partial(span.around, work))

        return SyncBody(turn, threaded, self.loop, in_thread, span)

    def in_thread(self, whose: Current, work: Callable[[], Any]) -> Job:
        span = ThreadSpan(self._presence, whose.place)
        return self._in_thread(self._step_threads, whose.run_id, partial(span.around, work))

    def perform(self, turn: Turn, asked: Asked, call: StepCall) -> StepRun:
        whose = Current(run_id=turn.run_id, workflow=turn.program.name)
        return StepRun(self, turn, whose, asked, call)

    def commit(self, commit: Commit) -> asyncio.Future[Committed]:
        return self._store.commit(commit)

    def outage(self, error: StoreUnavailable) -> None:
        self._setup.on_outage(error)

    def claim_request(self) -> ClaimRequest | None:
        return None if self.draining else self._one

    def over(self, turn: Turn, claims: Sequence[Claim] | None) -> None:
        self._forget(turn)
        self.turns_done += 1
        if claims:
            self.accept(claims)
        else:
            self._free_slot()

    def lost(self, turn: Turn, reason: str) -> None:
        log.warning("turn ended: %s", reason, extra=self._of(turn))
        self._forget(turn)
        self._free_slot()

    def broken(self, turn: Turn, error: Exception) -> None:
        log.error("the store refused a commit for good: %s", error, extra=self._of(turn))
        self._forget(turn)
        record = ErrorRecord(type=type(error).__name__, message=f"the store refused a commit: {error}")
        self._hand_back(turn.claim, error=dump_error(record))

    def note(self, turn: Turn, level: int, message: str, *args: object) -> None:
        log.log(level, message, *args, extra=self._of(turn))

    def _forget(self, turn: Turn) -> None:
        if self._turns.get(turn.run_id) is turn:
            del self._turns[turn.run_id]
        self._presence.drop(self._records.pop(turn.claim.token, NO_SLOT))

    def _free_slot(self) -> None:
        self._setup.slots.give(1)
        self._setup.on_free_slot()

    def _of(self, turn: Turn) -> dict[str, str]:
        return {"run_id": turn.run_id, "workflow": turn.program.name}

    # on the lane's thread: what the control thread orders

    def cancel(self, run_ids: Sequence[str]) -> None:
        """The cancellation of these runs was requested."""
        for run_id in run_ids:
            turn = self._turns.get(run_id)
            if turn is not None:
                turn.cancel()

    def drop(self, tokens: Sequence[Token]) -> None:
        """These tokens are dead: end their turns without a trace."""
        for token in tokens:
            turn = self._turns.get(token.run_id)
            if turn is not None and turn.claim.token == token:
                if not turn.is_ending:  # else it has most likely ended: its last commit's answer will tell
                    turn.suspend()
                    self.lost(turn, "lock lost")
            elif token in self._coming:
                self._forsworn.add(token)

    async def suspend_all(self, patience_s: float) -> int:
        """Stop every turn and hand the runs back; how many. Runs with a thread in user code come last.

        Waits at most `patience_s` for those threads; then they are abandoned and their runs handed back all the same.
        """
        turns = list(self._turns.values())
        for turn in turns:
            turn.suspend()
        deadline = self.loop.time() + patience_s
        for turn in sorted(turns, key=lambda turn: self._threads_of.get(turn.run_id, 0)):
            await self._threads_gone(turn.run_id, deadline)
            status = after(RunStatus.running, RunEvent.release)
            await self._release(Release(token=turn.claim.token, status=status, ready=True))
            self._forget(turn)
            self._free_slot()
        return len(turns)

    async def _threads_gone(self, run_id: str, deadline: float) -> None:
        while self._threads_of.get(run_id) and (left_s := deadline - self.loop.time()) > 0:
            self._thread_left.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._thread_left.wait(), left_s)

    def _in_thread(self, threads: Threads, run_id: str, work: Callable[[], Any]) -> Job:
        """Run user code in a thread, and know for how long the run has one."""
        job = threads.submit(work)
        self._count_thread(run_id, +1)
        job.add_done_callback(lambda _job: self.post(self._count_thread, run_id, -1))
        return job

    def _count_thread(self, run_id: str, change: int) -> None:
        count = self._threads_of.get(run_id, 0) + change
        if count:
            self._threads_of[run_id] = count
        else:
            self._threads_of.pop(run_id, None)
            self._thread_left.set()


def _tagging_factory(
    loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any], **options: Any
) -> asyncio.Task[Any]:
    """Tasks that carry whose they are, so that the watchdog can ask them from its own thread on every Python."""
    task = asyncio.Task(coro, loop=loop, **options)
    context = options.get("context")
    task.pyrula_current = current.get() if context is None else context.get(current)  # type: ignore[attr-defined]
    return task


def _fields(whose: Current | None) -> dict[str, str]:
    return {} if whose is None else {"run_id": whose.run_id, "workflow": whose.workflow, "step": whose.step}
