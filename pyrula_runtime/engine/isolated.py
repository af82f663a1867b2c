"""A turn with a lane of its own: its code may block, and delays nobody but itself.

The lane is made when the claim has arrived and ends when the turn is over: what the turn's code left running on the
loop is cancelled, what was made for the loop is closed (see loop_local), and the loop's own threads begin nothing more.
All of that has a limit, and the turn's place in the worker is free before it: a lane that hangs at its end keeps
nothing but its thread. In the black box the turn stands among the threads, with its thread's id, so that a crash in it,
or the GIL held by it, is its own.

A turn that hangs is given up (see hung): its place is free at once, and should its code ever come round, the turn
unwinds before any more of it runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import replace
from typing import Any

from pyrula_runtime.blackbox import NO_SLOT, Place
from pyrula_runtime.engine.commons import Commons
from pyrula_runtime.engine.lane import Lane
from pyrula_runtime.engine.lane_setup import LaneSetup
from pyrula_runtime.engine.lane_thread import LaneThread
from pyrula_runtime.engine.loop_local import close_all_of
from pyrula_runtime.engine.presence import Presence, Unrecorded
from pyrula_runtime.stores.protocol import Claim

log = logging.getLogger("pyrula.lane")

# how long what a turn left behind may take to end, and the same again for what is to be closed (seconds)
_WIND_UP_S = 5.0


class OwnThread(Unrecorded):
    """The presence of an isolated turn: what a lane says of its code is said of a thread, the rest of nobody."""

    def __init__(self, presence: Presence) -> None:
        self._presence = presence
        self._slot = NO_SLOT

    def enter_lane(self, place: Place, at_ns: int) -> None:
        self._presence.leave_thread(self._slot)
        self._slot = self._presence.enter_thread(place, at_ns)

    def leave_lane(self) -> None:
        slot, self._slot = self._slot, NO_SLOT
        self._presence.leave_thread(slot)

    def enter_thread(self, place: Place, at_ns: int) -> int:
        return self._presence.enter_thread(place, at_ns)

    def leave_thread(self, slot: int) -> None:
        self._presence.leave_thread(slot)

    def hold(self, run_id: str, fence: int) -> int:
        return self._presence.hold(run_id, fence)

    def drop(self, slot: int) -> None:
        self._presence.drop(slot)


class IsolatedTurn:
    """One claim's lane. `pass_on` takes the claims that come with its last commit; `on_gone` hears of its end."""

    def __init__(
        self,
        setup: LaneSetup,
        commons: Commons,
        claim: Claim,
        pass_on: Callable[[Sequence[Claim]], None],
        on_gone: Callable[[IsolatedTurn], None],
    ) -> None:
        self.claim = claim
        self.answered = True  # whether the loop has turned since it was asked last
        self.over: Future[None] = Future()  # the turn has ended, or is this worker's no more
        self.gone: Future[None] = Future()  # its thread has ended
        self._setup = setup
        self._pass_on = pass_on
        self._on_gone = on_gone
        self._place = [claim.token]  # in the worker; whoever takes it out gives it back
        self._has_ended = False
        self._ends: list[asyncio.Task[object]] = []
        own = replace(setup, presence=OwnThread(setup.presence), on_free_slot=self._slot_freed)
        self._home = LaneThread(own.presence, own.on_failed, self._gone, of_one_turn=True)
        self.lane = Lane(own, commons, self._route, self._home)

    def start(self) -> None:
        """Start the thread and begin the turn. RuntimeError if there can be no more threads."""
        try:
            self.lane.start()
        except RuntimeError:
            self.lane.loop.close()
            raise
        self.lane.take([self.claim])

    def ask(self) -> None:
        """Have the loop answer, if it turns."""
        self.answered = False
        self.lane.post(self._answer)

    def suspend(self, patience_s: float) -> None:
        """End the turn soon and hand its run back."""
        self.lane.post(self._begin, self.lane.suspend_all, patience_s)

    def give_up(self) -> bool:
        """Count it no more, whatever it does; False if it has ended. On the control thread."""
        if not self._takes_place():
            return False
        self.lane.condemn()
        self._tell_over()
        self._setup.free_slot()
        return True

    def stop(self) -> None:
        """End the loop, and the thread when it is in no user code; if the turn is over, they end by themselves."""
        self.lane.give_up()
        self.lane.post(self._stop_here)  # there, so that it is either this or the winding up, never both at once

    # on the turn's own thread

    def _stop_here(self) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._home.stop()

    def _answer(self) -> None:
        self.answered = True

    def _takes_place(self) -> bool:
        try:
            self._place.pop()
        except IndexError:
            return False
        return True

    def _route(self, claims: Sequence[Claim]) -> None:
        """The turn is over, and its place goes to these; if it was over before, they have their own."""
        if not self._takes_place() and not self._has_ended:
            self._setup.slots.overfill(1)
        self._pass_on(claims)
        self._end()

    def _slot_freed(self) -> None:
        """The turn is over, and its place was given back."""
        is_first = self._takes_place()
        self._end()  # before anybody hears of the place, and perhaps ends all lanes
        if is_first:
            self._setup.on_free_slot()
        else:
            self._setup.slots.overfill(1)

    def _end(self) -> None:
        self._tell_over()
        if not self._has_ended:
            self._has_ended = True
            self.lane.post(self._begin, self._wind_up)

    def _tell_over(self) -> None:
        with contextlib.suppress(InvalidStateError):  # two threads may find out at once
            self.over.set_result(None)

    def _begin(self, work: Callable[..., Coroutine[Any, Any, object]], *args: object) -> None:
        self._ends.append(self.lane.loop.create_task(work(*args)))

    async def _wind_up(self) -> None:
        await self.lane.settle()
        left = asyncio.all_tasks() - set(self._ends)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=_WIND_UP_S)
        try:
            async with asyncio.timeout(_WIND_UP_S):
                await close_all_of(self.lane.loop)
                await self.lane.loop.shutdown_asyncgens()
        except TimeoutError:
            fields = {"run_id": self.claim.token.run_id, "workflow": self.claim.workflow}
            log.warning("what an isolated turn made for its loop is not closed after %g s", _WIND_UP_S, extra=fields)
        self._home.stop()

    def _gone(self) -> None:
        self._tell_over()
        self._on_gone(self)
        self.gone.set_result(None)
