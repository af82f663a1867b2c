"""The lane: the thread and event loop on which a worker's turns are driven and its async steps run.

Everything of a turn happens on the lane's thread; other threads reach it through `post`. The lane commits straight to
the store's writer and, when a run ends, claims the next in the same call: only the first runs after idleness come from
the claim loop on the control thread.

A turn that ends by itself passes its slot to the run that its last commit claimed. A turn that is stopped (drain, lost
lock) hands its run back only when no thread of it is left in user code, or when the caller's patience is over.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pyrula_runtime.blackbox import NO_SLOT
from pyrula_runtime.core.cursor import Asked
from pyrula_runtime.core.errors import CodecFailed, ErrorRecord, InputError, StoreUnavailable
from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import RunEvent, RunStatus, after
from pyrula_runtime.engine.body import AsyncBody, Body
from pyrula_runtime.engine.codec import dump_error, load_json
from pyrula_runtime.engine.commons import Commons
from pyrula_runtime.engine.current import Current, current
from pyrula_runtime.engine.evacuation import Evacuation
from pyrula_runtime.engine.foreign_loop import explained
from pyrula_runtime.engine.host import Performing
from pyrula_runtime.engine.intake import Intake
from pyrula_runtime.engine.lane_setup import LaneSetup
from pyrula_runtime.engine.lane_thread import LaneThread
from pyrula_runtime.engine.posting import post
from pyrula_runtime.engine.presence import DrivenBody, Presence, ThreadSpan, mono_ms
from pyrula_runtime.engine.program import StepCall
from pyrula_runtime.engine.run_threads import RunThreads
from pyrula_runtime.engine.step_run import StepRun
from pyrula_runtime.engine.threaded_body import SyncBody
from pyrula_runtime.engine.threads import Job
from pyrula_runtime.engine.turn import Turn
from pyrula_runtime.stores.protocol import Claim, ClaimRequest, Commit, Committed, Release, Serves

log = logging.getLogger("pyrula.lane")

# how long a turn that has to read its inbox waits for a store that is away (seconds)
_AFTER_OUTAGE_S = 1.0


class Lane:
    """One lane; it is the turns' `Host` and the steps' `StepPlace`."""

    short_ms = 200  # to suspend and to claim the run again would take longer

    def __init__(
        self,
        setup: LaneSetup,
        commons: Commons | None = None,
        route: Callable[[Sequence[Claim]], None] | None = None,
        home: LaneThread | None = None,
    ) -> None:
        """Without the last three it is a worker's only lane."""
        commons = commons or Commons(setup.slots.capacity)
        self.lock_ttl_ms = setup.lock_ttl_ms
        self.payloads = setup.payloads
        self.replay = setup.replay
        self.turns_done = 0
        self._setup = setup
        self._presence = setup.presence
        self._one = setup.claim_request(1)
        self._turns: dict[str, Turn] = {}
        self._records: dict[Token, int] = {}  # where the black box has a turn's run
        self._commons = commons
        self._route = route or self.accept  # where the claims go that came with a last commit
        self._home = home or LaneThread(setup.presence, setup.on_failed)
        self.loop, self.thread = self._home.loop, self._home.thread
        self._threads = RunThreads(commons, self.loop)
        self._intake = Intake(setup, commons, self._begin)
        self._evacuation = Evacuation(self._home.urgent, self._unwind)

    # from other threads

    @property
    def draining(self) -> bool:
        """Whether no turn begins any more."""
        return self._commons.drain.is_set()

    def drain(self) -> None:
        """Begin no turn any more, and keep none that has nothing to do."""
        self._commons.drain.set()
        self.post(self._look_at_all)

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

    @property
    def presence(self) -> Presence:
        """Where is written down who executes."""
        return self._presence

    @property
    def whose(self) -> Current | None:
        """Whose code runs right now."""
        return self._home.on_lane.whose

    def post(self, callback: Callable[..., object], *args: object) -> None:
        """Run `callback` on the lane's thread soon, unless it is over."""
        post(self.loop, callback, *args)

    def beat(self) -> None:
        """Write down that the lane turns; to be called on its thread."""
        self._presence.beat_lane(mono_ms())

    def take(self, claims: Sequence[Claim]) -> None:
        """Start a turn for each claim soon; their slots are taken already."""
        self._intake.coming.add(claim.token for claim in claims)
        self.post(self._intake.start, claims)

    def begun(self) -> list[Token]:
        """The tokens of all turns but those that are handed back."""
        return self._evacuation.spares([turn.claim.token for turn in list(self._turns.values())])

    def condemn(self, keep: str = "") -> list[Token]:
        """While the lane is stuck: no code of its runs but this one's runs here any more; the tokens to hand back."""
        coming = self._intake.coming
        never_begun = [token for token in coming.undecided() if coming.withdraw(token)]
        begun = [token for token in self.begun() if token.run_id != keep]
        self._evacuation.condemn(begun)
        return [*never_begun, *begun]

    def held(self) -> list[Token]:
        """The tokens of all runs that are turns of this lane, or soon will be."""
        coming = (
            self._intake.coming.held()
        )  # first: a claim goes from there to the turns, and must not be missed on its way
        return list(dict.fromkeys([*coming, *self.begun()]))

    def forswear(self, token: Token) -> bool:
        """Never start a turn for this token, if it has not come yet; False if it has."""
        if not self._intake.coming.forswear(token):
            return False
        if token not in self.held():
            return True
        self._intake.coming.done(token)
        return False

    def stop(self) -> None:
        """End the loop and the pools; threads in user code are left to themselves."""
        self._commons.shutdown()
        self.give_up()
        self._home.stop()

    def give_up(self) -> None:
        """The lane is about to end: wait for no answer of the store any more."""
        self.post(self._intake.give_up)

    # on the lane's thread: claims in

    def accept(self, claims: Sequence[Claim]) -> None:
        """Start a turn for each claim; their slots are taken already."""
        self._intake.accept(claims)

    def adopt(self, claims: Sequence[Claim]) -> None:
        """Start a turn for each claim that came for a turn which had given its slot back by then."""
        self._setup.slots.overfill(len(claims))
        self._route(claims)

    async def settle(self) -> None:
        """Return when the store has been told of all that was handed back."""
        await self._intake.settle()

    def _begin(self, claim: Claim, journal: Sequence[bytes]) -> None:
        program = self._setup.programs[claim.workflow]
        try:
            claim = self.payloads.opened(claim)
            turn = Turn(claim, program, [self.payloads.load_entry(raw) for raw in journal], self)
        except CodecFailed as error:
            self._hand_back_unread(claim, error)
            return
        except (ValueError, KeyError) as error:
            record = ErrorRecord(type="JournalMismatch", message=f"the journal cannot be read: {error!r}")
            self._intake.hand_back(claim, error=dump_error(record))
            return
        self._turns[turn.run_id] = turn
        self._records[claim.token] = self._presence.hold(turn.run_id, claim.token.fence)
        self._intake.coming.done(claim.token)
        turn.begin()

    def _hand_back_unread(self, claim: Claim, error: CodecFailed) -> None:
        record = ErrorRecord(type=CodecFailed.__name__, message=f"its payloads cannot be read: {error}")
        self._intake.hand_back(claim, error=dump_error(record))

    # on the lane's thread: what turns need (Host, StepPlace)

    @property
    def in_haste(self) -> bool:
        return self.draining or self._commons.no_successors.is_set()

    def mono_ms(self) -> int:
        return self._setup.mono_ms()

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

            return DrivenBody(AsyncBody(turn, body), whose, self._home.on_lane, self._presence)

        run = program.run
        if run is None:
            raise InputError(f"program {program.name!r} has no body")

        def threaded(operations: SyncBody) -> Any:
            current.set(whose)
            return run(operations, load_json(claim.input))

        span = ThreadSpan(self._presence, whose.place)

        def in_thread(work: Callable[[], None]) -> Job:
            return self._threads.run_body(turn.run_id, partial(span.around, work))

        return SyncBody(turn, threaded, self.loop, in_thread, span)

    def in_thread(self, whose: Current, work: Callable[[], Any]) -> Job:
        span = ThreadSpan(self._presence, whose.place)
        return self._threads.run_step(whose.run_id, partial(span.around, work))

    def perform(self, turn: Turn, asked: Asked, call: StepCall) -> Performing:
        whose = Current(run_id=turn.run_id, workflow=turn.program.name)
        if self._commons.isolates and call.is_async:
            call = replace(call, call=explained(call.call))
        return StepRun(self, turn, whose, asked, call)

    def new_run_id(self, now_ms: int, entropy: bytes) -> str:
        return self._setup.store.new_run_id(now_ms, entropy)

    def read_inbox(self, turn: Turn, after_seq: int) -> None:
        self._intake.spawn(self._read_inbox(turn, after_seq))

    async def _read_inbox(self, turn: Turn, after_seq: int) -> None:
        while not turn.is_over:
            try:
                page = await self._setup.store.read_inbox(turn.run_id, after_seq)
                turn.letters(self.payloads.opened_letters(page))
                return
            except StoreUnavailable as error:
                self.outage(error)
                await asyncio.sleep(_AFTER_OUTAGE_S)
            except CodecFailed as error:
                turn.suspend()
                self._forget(turn)
                self._hand_back_unread(turn.claim, error)

    def commit(self, commit: Commit) -> asyncio.Future[Committed]:
        return self._setup.store.commit(commit)

    def outage(self, error: StoreUnavailable) -> None:
        self._setup.on_outage(error)

    def claim_request(self) -> ClaimRequest | None:
        return None if self.in_haste else self._one

    def over(self, turn: Turn, claims: Sequence[Claim] | None) -> None:
        self._forget(turn)
        self.turns_done += 1
        if claims:
            self._route(claims)
        else:
            self._setup.free_slot()

    def again(self, turn: Turn) -> None:
        turn.suspend()
        self._forget(turn)
        self._intake.hand_back(turn.claim)

    def lost(self, turn: Turn, reason: str) -> None:
        log.warning("turn ended: %s", reason, extra=self._of(turn))
        self._forget(turn)
        self._setup.free_slot()

    def broken(self, turn: Turn, error: Exception) -> None:
        log.error("the store refused a commit for good: %s", error, extra=self._of(turn))
        self._forget(turn)
        record = ErrorRecord(type=type(error).__name__, message=f"the store refused a commit: {error}")
        self._intake.hand_back(turn.claim, error=dump_error(record))

    def note(self, turn: Turn, level: int, message: str, *args: object) -> None:
        log.log(level, message, *args, extra=self._of(turn))

    def _forget(self, turn: Turn) -> None:
        if self._turns.get(turn.run_id) is turn:
            del self._turns[turn.run_id]
        self._presence.drop(self._records.pop(turn.claim.token, NO_SLOT))

    def _of(self, turn: Turn) -> dict[str, str]:
        return {"run_id": turn.run_id, "workflow": turn.program.name}

    # on the lane's thread: what the control thread orders

    def _look_at_all(self) -> None:
        for turn in list(self._turns.values()):
            turn.parked()

    def cancel(self, run_ids: Sequence[str]) -> None:
        """The cancellation of these runs was requested."""
        for run_id in run_ids:
            turn = self._turns.get(run_id)
            if turn is not None:
                turn.cancel()

    def tell(self, inbox: Mapping[str, int]) -> None:
        """So many messages ever came for these runs."""
        for run_id, inbox_len in inbox.items():
            turn = self._turns.get(run_id)
            if turn is not None:
                turn.heard(inbox_len)

    def drop(self, tokens: Sequence[Token]) -> None:
        """These tokens are dead: end their turns without a trace."""
        for token in tokens:
            turn = self._turns.get(token.run_id)
            if turn is not None and turn.claim.token == token:
                if not turn.is_ending:  # else it has most likely ended: its last commit's answer will tell
                    turn.suspend()
                    self.lost(turn, "lock lost")
            else:
                self._intake.coming.withdraw(token)

    def _unwind(self, token: Token) -> None:
        """End the turn of a run that was handed back, without a trace."""
        turn = self._turns.get(token.run_id)
        if turn is not None and turn.claim.token == token:
            turn.suspend()
            self._forget(turn)
            self._setup.free_slot()

    async def suspend_all(self, patience_s: float) -> int:
        """Stop every turn and hand the runs back; how many. Runs with a thread in user code come last.

        Waits at most `patience_s` for those threads; then they are abandoned and their runs handed back all the same.
        """
        turns = list(self._turns.values())
        for turn in turns:
            turn.suspend()
        deadline = self.loop.time() + patience_s
        for turn in sorted(turns, key=lambda turn: self._threads.count(turn.run_id)):
            await self._threads.gone(turn.run_id, deadline)
            status = after(RunStatus.running, RunEvent.release)
            await self._intake.release(Release(token=turn.claim.token, status=status, ready=True))
            self._forget(turn)
            self._setup.free_slot()
        return len(turns)
