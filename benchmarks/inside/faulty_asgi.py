"""The least ASGI app that can block or die: what gunicorn and uvicorn serve. Standard library only."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.inside import DIES
from benchmarks.tape import Pen

_FOREVER_S = 600

pen = Pen()
pen.note("imported")


async def app(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """Note that a worker is ready; answer with its pid, unless the path says how to be stuck."""
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        pen.note("started")
        if DIES in os.environ:
            asyncio.get_running_loop().call_later(1, os._exit, 1)
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    if scope["path"] != "/":
        pen.note("stuck")
    if scope["path"] == "/sleeps":
        time.sleep(_FOREVER_S)  # noqa: ASYNC251 - the fault
    if scope["path"] == "/matches":
        re.match("(a+)+b", "a" * 64)
    body = str(os.getpid()).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})
