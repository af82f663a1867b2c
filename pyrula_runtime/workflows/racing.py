"""Operations side by side, of which the first decides."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from pyrula_runtime.core.errors import UsageError

R = TypeVar("R")


class First(NamedTuple, Generic[R]):
    """Which of several operations had its outcome first, counted from 0, and its value."""

    which: int
    value: R


async def first(contestants: Sequence[Awaitable[Any]]) -> First[Any]:
    """The first that ends; the others are cancelled, and have ended when this returns."""
    check_any(contestants)
    running = [asyncio.ensure_future(each) for each in contestants]
    try:
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        which = next(number for number, each in enumerate(running) if each.done())
    finally:
        late = [each for each in running if not each.done()]
        for each in late:
            each.cancel()
        if late:
            await asyncio.wait(late)
    return First(which, running[which].result())


def check_any(contestants: Sequence[object]) -> None:
    """UsageError if there is nothing that could be first."""
    if not contestants:
        raise UsageError("ctx.first() needs at least one operation to wait for")
