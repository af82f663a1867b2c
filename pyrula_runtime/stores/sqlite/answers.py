"""The way of a verb to one of the store's threads and back: a call carries its work there and its answer home.

Answers of one batch go home with a single wake-up of each event loop, since waking a loop costs more than a verb.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pyrula_runtime.core.errors import UsageError

Given = TypeVar("Given", contravariant=True)
Answer = TypeVar("Answer")


@dataclass(slots=True, eq=False)
class Call(Generic[Given, Answer]):
    """Work to be done with what the thread gives it; `outcome` is set there, `failure` instead if it failed."""

    work: Callable[[Given], Answer]
    future: asyncio.Future[Answer]
    outcome: Any = None
    failure: BaseException | None = None

    def settle(self) -> None:
        """Answer the caller, unless it has gone: its cancellation undoes nothing."""
        if self.future.done():
            return
        if self.failure is not None:
            self.future.set_exception(self.failure)
        else:
            self.future.set_result(self.outcome)


# From an answer to the first line of the step that it begins, a lane goes round five times.
_ROUNDS = 6
# A loop that needs longer to go round is at work, without the GIL or with it; it is not waited for.
_GIVE_WAY_S = 0.002

AnyCall = TypeVar("AnyCall", bound=Call[Any, Any])


class Intake(Generic[AnyCall]):
    """A thread's queue of calls, with an end: a call is either taken before it or refused, never forgotten."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[AnyCall | None] = queue.SimpleQueue()
        self._ended = False
        self._mutex = threading.Lock()

    def put(self, call: AnyCall) -> None:
        """Queue a call; UsageError after the end."""
        with self._mutex:
            if self._ended:
                raise UsageError("the store has been closed; open() it again, or end what still uses it")
            self._calls.put(call)

    def end(self) -> None:
        """Let no more calls in."""
        with self._mutex:
            self._ended = True
            self._calls.put(None)

    def take(self, limit: int, wait_s: float | None) -> tuple[list[AnyCall], bool]:
        """What waits, up to `limit` calls, waiting for the first one; and whether it was the last."""
        taken: list[AnyCall] = []
        try:
            call = self._calls.get(timeout=wait_s)
            while call is not None:
                taken.append(call)
                if len(taken) == limit:
                    return taken, False
                call = self._calls.get_nowait()
        except queue.Empty:
            return taken, False
        return taken, True


def send_home(calls: Iterable[Call[Any, Any]]) -> None:
    """Deliver the outcomes, one wake-up per loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Call[Any, Any]]] = {}
    for done in calls:
        by_loop.setdefault(done.future.get_loop(), []).append(done)
    for loop, group in by_loop.items():
        with suppress(RuntimeError):  # that loop is closed: nobody is left to hear the answer
            loop.call_soon_threadsafe(_settle, group)


def _settle(group: list[Call[Any, Any]]) -> None:
    for done in group:
        done.settle()


def give_way(calls: Iterable[Call[Any, Any]]) -> None:
    """Let the loops of these calls do what they are about to do, for a moment; not on a loop's own thread."""
    for gate in [_gate(loop) for loop in {call.future.get_loop() for call in calls}]:
        gate.acquire(timeout=_GIVE_WAY_S)


def _gate(loop: asyncio.AbstractEventLoop) -> threading.Lock:
    """Can be had once the loop has gone round, or is closed."""
    gate = threading.Lock()
    gate.acquire()
    try:
        loop.call_soon_threadsafe(_go_round, loop, _ROUNDS, gate)
    except RuntimeError:  # that loop is closed
        gate.release()
    return gate


def _go_round(loop: asyncio.AbstractEventLoop, rounds: int, gate: threading.Lock) -> None:
    if rounds:
        loop.call_soon(_go_round, loop, rounds - 1, gate)
    else:
        gate.release()
