"""How to use what a part of a store has answered while another part of it is away.

Runs on the servers that are there need not wait for those that are not: what is known of them is acted upon, and then
the fault is raised, so that whoever made the call tells it and comes back for the rest.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar, cast

from pyrula_runtime.core.errors import StoreUnavailable

Answer = TypeVar("Answer")


class PartlyUnavailable(StoreUnavailable):
    """Some servers of a store gave no answer to a verb about many runs; of what they keep nothing is known.

    `answered` is the verb's answer without them. To whoever does not take it this is an outage like any other.
    """

    def __init__(self, message: str, answered: object) -> None:
        super().__init__(message)
        self.answered = answered


async def as_far_as_known(call: Awaitable[Answer]) -> tuple[Answer, StoreUnavailable | None]:
    """The answer of a verb about many runs, and the fault to be raised once it was used, if a part is missing.

    Raises StoreUnavailable if nothing was answered.
    """
    try:
        return await call, None
    except PartlyUnavailable as error:
        return cast("Answer", error.answered), error
