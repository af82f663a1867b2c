"""All lanes of a worker: the one that most turns share, and one for each turn that is isolated.

Where a turn runs, its program says. A claim may come to the control thread or with the last commit of any turn; each
goes to its own place from there. To the rest of the worker all of this is one thing: it asks what is held, and orders
cancels, drops and the drain, without knowing which lane it is about. What is said of a lane that is stuck is said of
the shared one: an isolated turn delays nobody (see hung). All methods may be called from any thread, but for
`suspend_all`, `wind_up` and `give_up`, which are the control thread's.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from pyrula_runtime.core.locks import Token
from pyrula_runtime.engine.coming import Coming
from pyrula_runtime.engine.commons import Commons
from pyrula_runtime.engine.isolated import IsolatedTurn
from pyrula_runtime.engine.lane import Lane
from pyrula_runtime.engine.lane_setup import LaneSetup
from pyrula_runtime.engine.watchdog import stack_of
from pyrula_runtime.engine.whereabouts import of_all
from pyrula_runtime.options import Isolation
from pyrula_runtime.stores.protocol import Claim, Serves

log = logging.getLogger("pyrula.lane")


class Lanes:
    """One worker's lanes."""

    def __init__(self, setup: LaneSetup, isolation: Isolation = "lane", commons: Commons | None = None) -> None:
        """`isolation` is where async programs run that do not say it themselves."""
        self._setup = setup
        self._commons = commons or Commons(setup.slots.capacity)
        self._isolated = frozenset(each.name for each in setup.programs.values() if each.is_isolated(isolation))
        self._commons.isolates = bool(self._isolated)
        self._apart = self._commons.beside()
        self.shared = Lane(setup, self._commons, self._go_on if self._isolated else None)
        self._turns: dict[Token, IsolatedTurn] = {}
        self._done = 0
        self._mutex = threading.Lock()

    @property
    def serves(self) -> tuple[Serves, ...]:
        """What can be executed here."""
        return self.shared.serves

    @property
    def is_over(self) -> bool:
        """Whether the shared lane has ended: then this worker cannot go on."""
        return self.shared.is_over

    @property
    def draining(self) -> bool:
        """Whether no turn begins any more."""
        return self._commons.drain.is_set()

    @property
    def turns_done(self) -> int:
        """How many turns ended by themselves."""
        with self._mutex:
            return self.shared.turns_done + self._done + sum(each.lane.turns_done for each in self.isolated())

    def start(self) -> None:
        """Start the shared lane; the others start with their turns."""
        self.shared.start()

    def drain(self) -> None:
        """Begin no turn any more, and keep none that has nothing to do."""
        for lane in self._lanes():
            lane.drain()

    def stop(self) -> None:
        """End all loops and pools; threads in user code are left to themselves."""
        self.shared.stop()
        for turn in self.isolated():
            turn.stop()

    def isolated(self) -> list[IsolatedTurn]:
        """The isolated turns, also those that are about to end."""
        return list(self._turns.values())

    def held(self) -> list[Token]:
        """The tokens of all runs that are turns here, or soon will be."""
        coming = [*self._commons.coming.held(), *self._apart.coming.held()]  # first: see Lane.held
        turns = [*self.shared.begun(), *(token for each in self.isolated() for token in each.lane.begun())]
        return list(dict.fromkeys([*coming, *turns]))

    def take(self, claims: Sequence[Claim]) -> None:
        """Start a turn for each claim soon; their slots are taken already."""
        if shared := self._dealt(claims):
            self.shared.take(shared)

    def forswear(self, token: Token) -> bool:
        """Never start a turn for this token, if it has not come yet; False if it has."""
        forsworn: list[Coming] = []
        for coming in (self._commons.coming, self._apart.coming):
            if not coming.forswear(token):
                break
            forsworn.append(coming)
        else:
            if token not in self.held():
                return True
        for coming in forsworn:
            coming.done(token)
        return False

    def cancel(self, run_ids: Sequence[str]) -> None:
        """The cancellation of these runs was requested."""
        for lane in self._lanes():
            lane.post(lane.cancel, run_ids)

    def tell(self, inbox: Mapping[str, int]) -> None:
        """So many messages ever came for these runs."""
        for lane in self._lanes():
            lane.post(lane.tell, inbox)

    def drop(self, tokens: Sequence[Token]) -> None:
        """These tokens are dead: end their turns without a trace."""
        for lane in self._lanes():
            lane.post(lane.drop, tokens)

    async def suspend_all(self, patience_s: float) -> None:
        """Stop every turn and hand the runs back, those with a thread in user code after at most this time."""
        lane, isolated = self.shared, self.isolated()
        for turn in isolated:
            turn.suspend(patience_s)
        shared = asyncio.run_coroutine_threadsafe(lane.suspend_all(patience_s), lane.loop)
        over = (asyncio.shield(asyncio.wrap_future(turn.over)) for turn in isolated)  # theirs, whoever waits for it
        await asyncio.gather(asyncio.wrap_future(shared), *over)

    async def wind_up(self, patience_s: float) -> None:
        """Wait at most so long for the lanes of isolated turns that are over: they close what was made there."""
        ends = [asyncio.wrap_future(turn.gone) for turn in self.isolated() if turn.over.done()]
        if ends:
            await asyncio.wait([asyncio.shield(end) for end in ends], timeout=patience_s)

    def give_up(self, turn: IsolatedTurn) -> None:
        """Hold this turn no more: its run is another worker's by now."""
        if turn.give_up():
            self._turns.pop(turn.claim.token, None)

    def stack(self) -> str:
        """What the lanes' threads do now, and then what all runs in flight do."""
        isolated = (
            f"\nisolated turn of run {each.claim.token.run_id} ({each.claim.workflow})\n{stack}"
            for each in self.isolated()
            if (stack := stack_of(each.lane.thread.ident))
        )
        runs = of_all([lane.loop for lane in self._lanes()])
        return "".join([stack_of(self.shared.thread.ident), *isolated, runs])

    # the shared lane, where it is stuck

    def when_round(self, callback: Callable[[], None]) -> None:
        """Call this on its thread as soon as it has come round."""
        self.shared.post(callback)

    def condemn(self, keep: str = "") -> list[Token]:
        """No code of its runs but this one's runs there any more; the tokens to hand back."""
        return self.shared.condemn(keep)

    # claims

    def _lanes(self) -> list[Lane]:
        return [self.shared, *(each.lane for each in self.isolated())]

    def _go_on(self, claims: Sequence[Claim]) -> None:
        """On the shared lane's thread: these came with the last commit of one of its turns."""
        if shared := self._dealt(claims):
            self.shared.accept(shared)

    def _dealt(self, claims: Sequence[Claim]) -> list[Claim]:
        """Give isolated turns lanes of their own; the claims for the shared one are left."""
        if not self._isolated:
            return list(claims)
        apart = [claim for claim in claims if claim.workflow in self._isolated]
        self._apart.coming.add(claim.token for claim in apart)
        roomless = [claim for claim in apart if not self._isolate(claim)]
        return [*(claim for claim in claims if claim.workflow not in self._isolated), *roomless]

    def _isolate(self, claim: Claim) -> bool:
        """Whether the claim has got a lane of its own."""
        try:
            turn = IsolatedTurn(self._setup, self._apart, claim, self.take, self._gone)
            self._turns[claim.token] = turn
            turn.start()
        except (RuntimeError, OSError) as error:  # no more threads, or files
            self._turns.pop(claim.token, None)
            self._apart.coming.done(claim.token)
            fields = {"run_id": claim.token.run_id, "workflow": claim.workflow}
            log.error("an isolated turn gets no thread of its own and shares the lane: %s", error, extra=fields)
            return False
        return True

    def _gone(self, turn: IsolatedTurn) -> None:
        with self._mutex:
            self._turns.pop(turn.claim.token, None)
            self._done += turn.lane.turns_done
