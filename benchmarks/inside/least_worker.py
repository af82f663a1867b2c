"""The least that could serve a submit durably: wait for a datagram, read the row. No claim, no lock, no guarantee."""

from __future__ import annotations

import asyncio
import socket
import sys

import apsw

from benchmarks.tape import Pen


async def serve(path: str) -> None:
    """Note each row that comes after those that were there."""
    pen = Pen()
    pen.note("imported")
    db = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    bell = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    bell.setblocking(False)
    bell.bind(f"{path}.bell")
    seen = 0

    def look() -> None:
        nonlocal seen
        for n, key in db.execute("SELECT n, key FROM run WHERE n > ? ORDER BY n", (seen,)):
            pen.note("begin", str(key))
            seen = n

    def rung() -> None:
        bell.recv(16)
        look()

    look()
    pen.note("ready")
    asyncio.get_running_loop().add_reader(bell, rung)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
