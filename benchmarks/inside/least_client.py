"""Submits to the least worker: one durable row, one datagram."""

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import suppress

from benchmarks.inside.raw import connect
from benchmarks.load import act


def main() -> None:
    """Read the command line: path, action, count."""
    path, action, count = sys.argv[1:]
    db = connect(path)
    db.execute("CREATE TABLE IF NOT EXISTS run (n INTEGER PRIMARY KEY, key TEXT)")
    bell = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

    async def submit(key: str) -> None:
        db.execute("INSERT INTO run (key) VALUES (?)", (key,))
        with suppress(FileNotFoundError):  # nobody waits yet
            bell.sendto(b"r", f"{path}.bell")

    asyncio.run(act(submit, action, int(count), 1))


if __name__ == "__main__":
    main()
