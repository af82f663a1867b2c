"""What a server does when the least scripts that a durable run fits in are all that it is asked, by plain sockets.

A script submits, one claims, one appends to a journal under a fence, one ends a run and claims the next. Runs go 50
abreast: one write holds the same stage of 50 runs, and the answers are awaited before the next. Input, entries and
results have 120 bytes.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import hiredis

from benchmarks.tape import Pen

ABREAST = 50
_BODY = b"x" * 120
_READ_BYTES = 65_536
_CLAIM = """
local found = redis.call('ZPOPMIN', 'q')
if not found[1] then return false end
redis.call('HSET', 'r:' .. found[1], 's', 'running', 'f', 1)
redis.call('ZADD', 'a', ARGV[1], found[1])
return found[1]
"""
_SCRIPTS = {
    "submit": """
redis.call('HSET', 'r:' .. ARGV[2], 's', 'queued', 'f', 0)
redis.call('SET', 'i:' .. ARGV[2], ARGV[3])
redis.call('ZADD', 'q', redis.call('INCR', 'n'), ARGV[2])
return 1
""",
    "claim": _CLAIM,
    "append": """
if redis.call('HGET', 'r:' .. ARGV[2], 'f') ~= '1' then return 0 end
redis.call('RPUSH', 'j:' .. ARGV[2], ARGV[3])
redis.call('ZADD', 'a', ARGV[1], ARGV[2])
return 1
""",
    "end": f"""
if redis.call('HGET', 'r:' .. ARGV[2], 'f') ~= '1' then return false end
if ARGV[4] then redis.call('RPUSH', 'j:' .. ARGV[2], ARGV[4]) end
redis.call('HSET', 'r:' .. ARGV[2], 's', 'completed')
redis.call('ZREM', 'a', ARGV[2])
redis.call('SET', 'o:' .. ARGV[2], ARGV[3])
{_CLAIM}""",
}


class Raw:
    """One process's socket."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._socket = socket.create_connection((address.hostname, address.port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._replies = hiredis.Reader()
        self._digests = {name: self.ask([("SCRIPT", "LOAD", text)])[0] for name, text in _SCRIPTS.items()}

    def ask(self, commands: list[tuple[Any, ...]]) -> list[Any]:
        """Send commands in one write; all their answers."""
        self._socket.sendall(b"".join(map(hiredis.pack_command, commands)))
        return [self._reply() for _ in commands]

    def _reply(self) -> Any:
        while (reply := self._replies.gets()) is False:
            self._replies.feed(self._socket.recv(_READ_BYTES))
        return reply

    def run(self, script: str, arguments: list[tuple[Any, ...]]) -> list[Any]:
        """One script, once for each row of arguments."""
        return self.ask([("EVALSHA", self._digests[script], 0, time.time_ns(), *row) for row in arguments])

    def submit(self, count: int, abreast: int) -> None:
        """Submit runs, `abreast` in a write."""
        for first in range(0, count, abreast):
            self.run("submit", [(f"{os.getpid()}-{n}-01JD0000000000", _BODY) for n in range(first, first + abreast)])

    def drain(self, steps: int) -> None:
        """Claim and end runs until there are none."""
        last = [_BODY] if steps else []
        mine = self._found(self.run("claim", [()] * ABREAST))
        while mine:
            for _ in range(steps - 1):
                self.run("append", [(run, _BODY) for run in mine])
            mine = self._found(self.run("end", [(run, _BODY, *last) for run in mine]))

    @staticmethod
    def _found(answers: list[Any]) -> list[Any]:
        return [answer for answer in answers if answer is not None]


def scripts_in(told: str) -> dict[str, float]:
    """How many scripts were called so far, and how many microseconds they took, from what a server tells of itself."""
    found = re.findall(r"cmdstat_eval(?:sha)?:calls=(\d+),usec=(\d+)", told)
    return {"calls": sum(int(calls) for calls, _ in found), "took_us": sum(int(took) for _, took in found)}


def main() -> None:
    """Read the command line: server, what to do, how many (runs to submit, or steps to drain them with)."""
    url, what, many = sys.argv[1:]
    raw, pen, count = Raw(url), Pen(), int(many)
    actions: dict[str, Callable[[], object]] = {
        "single": lambda: raw.submit(count, 1),
        "grouped": lambda: raw.submit(count, ABREAST),
        "drain": lambda: raw.drain(count),
    }
    pen.note("begin", what)
    actions[what]()
    pen.note("end", what)
    sys.stdout.write(f"{json.dumps({})}\n")


if __name__ == "__main__":
    main()
