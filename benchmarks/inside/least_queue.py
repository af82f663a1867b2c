"""The least asyncio worker that a server allows: a blocking pop of up to 100 keys. At most once, no answer, no retry.

As a program it serves (`serve`), or is a client of itself.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any
from urllib.parse import urlsplit

import hiredis

from benchmarks.inside.jobs import noop, server_url, waiting
from benchmarks.load import obey

_JOBS = {b"noop": noop, b"waiting": waiting}
_POP = hiredis.pack_command(("BLMPOP", "0", "1", "queue", "LEFT", "COUNT", "100"))  # type: ignore[arg-type]
_READ_BYTES = 65_536


class _Connection:
    """Commands out, answers in their order in."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._replies = hiredis.Reader()

    async def ask(self, command: bytes) -> Any:
        """One command, alone on its connection."""
        self._writer.write(command)
        while (reply := self._replies.gets()) is False:
            self._replies.feed(await self._reader.read(_READ_BYTES))
        return reply


async def _connected() -> _Connection:
    address = urlsplit(server_url())
    return _Connection(*await asyncio.open_connection(address.hostname, address.port))


async def _serve() -> None:
    server, under_way = await _connected(), set[asyncio.Task[None]]()
    while True:
        _, found = await server.ask(_POP)
        for each in found:
            job, _, key = each.partition(b" ")
            task = asyncio.create_task(_JOBS[job](key.decode()))
            under_way.add(task)
            task.add_done_callback(under_way.discard)


async def _submit_all() -> None:
    idle = [await _connected() for _ in range(50)]

    async def enqueue(job: str, key: str) -> None:
        server = idle.pop()
        await server.ask(hiredis.pack_command(("RPUSH", "queue", f"{job} {key}")))  # type: ignore[arg-type]
        idle.append(server)

    await obey(enqueue)


if __name__ == "__main__":
    asyncio.run(_serve() if sys.argv[1:] == ["serve"] else _submit_all())
