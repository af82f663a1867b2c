"""How one thread asks another's event loop to do something, when that loop may be over by then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress


def post(loop: asyncio.AbstractEventLoop, callback: Callable[..., object], *args: object) -> None:
    """Run `callback` on the loop's thread soon; nothing happens if the loop has ended.

    Asking first whether it is closed would not do: it may close between the question and the call.
    """
    with suppress(RuntimeError):  # the loop is closed: nobody is left to do it
        loop.call_soon_threadsafe(callback, *args)
