"""What is asked of many shards, of which a server may be away: the rest is done, and it is told that some is missing.

A node of a cluster that dies is replaced within seconds, and what the others keep must not stand still that long. So a
verb about many runs does what it can, and what it has come to goes with PartlyUnavailable; only if nobody answered it
is an outage like any other. Which shards are missing the caller need not know: the answer is that of the others, never
one that says something about runs of whom nobody knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.stores.partly import PartlyUnavailable

Answer = TypeVar("Answer")
Whole = TypeVar("Whole")


async def at_once(
    calls: Mapping[int, Awaitable[Answer]], patience_s: float, put_together: Callable[[Mapping[int, Answer]], Whole]
) -> Whole:
    """Put together what these shards answer; once some have answered, the others are waited for so long (seconds)."""
    if not calls:
        return put_together({})
    asked = {number: asyncio.ensure_future(call) for number, call in calls.items()}
    try:
        await asyncio.wait(asked.values(), return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait(asked.values(), timeout=patience_s)
    finally:
        silent = {number for number, answer in asked.items() if answer.cancel()}
    told: dict[int, Answer] = {}
    fault: StoreUnavailable | None = None
    for number, answer in asked.items():
        try:
            if number in silent:
                raise StoreUnavailable(f"shard {number} gave no answer in {patience_s:g} s, when others had answered")
            told[number] = answer.result()
        except StoreUnavailable as error:
            fault = fault or error
    if fault is not None and not told:
        raise fault
    return whole(put_together(told), fault)


async def in_turn(
    servers: Iterable[Sequence[int]], visit: Callable[[Sequence[int]], Awaitable[bool]]
) -> StoreUnavailable | None:
    """Visit the shards of one server after the other, until a visit says that it is enough.

    A server that gives no answer is left out from there on. The fault of the first, if any.
    """
    fault: StoreUnavailable | None = None
    for numbers in servers:
        try:
            if await visit(numbers):
                break
        except StoreUnavailable as error:
            fault = fault or error
    return fault


def whole(answer: Whole, fault: StoreUnavailable | None) -> Whole:
    """The answer, if nothing is missing. Raises PartlyUnavailable with it if something is."""
    if fault is not None:
        raise PartlyUnavailable(f"a part of the store gave no answer: {fault}", answer) from fault
    return answer
