"""One object per event loop, for what belongs to the loop it was made on: clients, pools, locks.

A client with an event loop in it (nearly every async one) works only on that loop. Where turns have loops of their own,
a client in a module's global would be used on all of them. So it is made once per loop, when it is first asked for
there, and closed with the loop of an isolated turn. The loop itself holds them: one that nobody closes here takes them
with it. Only its own thread ever looks at them.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from asyncio import events
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from pyrula_runtime.core.errors import UsageError

log = logging.getLogger("pyrula.lane")

T = TypeVar("T")

_KEPT = "_pyrula_loop_locals"


class LoopLocal(Generic[T]):
    """Called in a coroutine, it gives the object of the running loop."""

    def __init__(self, factory: Callable[[], T]) -> None:
        if inspect.iscoroutinefunction(factory):
            raise UsageError(
                f"lane_local takes a plain function that makes the object, not {factory!r}; where making it needs an "
                f"await, let it make an object that connects when it is first used"
            )
        if not callable(factory):
            raise UsageError(f"lane_local takes a function that makes the object, not {factory!r} itself")
        self._factory = factory

    def __call__(self) -> T:
        """The object of the running event loop, made if this is its first use there."""
        loop: Any = events._get_running_loop()
        if not isinstance(loop, asyncio.AbstractEventLoop):  # none, or that of a workflow's body
            raise UsageError(
                f"{self!r} was called where no event loop runs to which it could belong; call it in an async step, as "
                f"a workflow's body and plain functions have none"
            )
        made = loop.__dict__.setdefault(_KEPT, {})
        if self not in made:
            made[self] = self._factory()
        made_here: T = made[self]
        return made_here

    def __repr__(self) -> str:
        return f"lane_local({getattr(self._factory, '__qualname__', self._factory)})"


def lane_local(factory: Callable[[], T]) -> LoopLocal[T]:
    """One object of its kind for each event loop, made by the factory where it is first used.

    After `http = lane_local(httpx.AsyncClient)`, an async step calls `http()` to get the client of the loop that it
    runs on. The loop of an isolated turn closes it at its end, by `aclose()` or `close()`; on the lane that turns share
    it lives as long as the worker.
    """
    return LoopLocal(factory)


async def close_all_of(loop: asyncio.AbstractEventLoop) -> None:
    """Close what was made on this loop, the newest first: by `aclose` or `close`, if it has one. On the loop."""
    made: dict[LoopLocal[Any], Any] = loop.__dict__.pop(_KEPT, {})
    for local, thing in reversed(made.items()):
        close = getattr(thing, "aclose", None) or getattr(thing, "close", None)
        if callable(close):
            (fault,) = await asyncio.gather(_called(close), return_exceptions=True)
            if fault is not None:  # the user's; the others are to be closed, too
                log.warning("%r: closing what it made failed: %r", local, fault)


async def _called(close: Callable[[], Any]) -> None:
    closing = close()
    if inspect.isawaitable(closing):
        await closing
