"""How to use what a part of a store has answered while another part of it is away.

Runs on the servers that are there need not wait for those that are not: what is known of them is acted upon, and then
the fault is raised, so that whoever made the call tells it and comes back for the rest.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar, cast

from pyrula_runtime.core.errors import PartlyUnavailable, StoreUnavailable

Answer = TypeVar("Answer")


async def as_far_as_known(call: Awaitable[Answer]) -> tuple[Answer, StoreUnavailable | None]:
    """The answer of a verb about many runs, and the fault to be raised once it was used, if a part is missing.

    Raises StoreUnavailable if nothing was answered.
    """
    try:
        return await call, None
    except PartlyUnavailable as error:
        return cast("Answer", error.answered), error
