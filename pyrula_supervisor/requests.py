"""What goes over the control socket: one line of JSON asks, lines of JSON answer. Pure: bytes in, values out.

A connection carries one request. Its answer is one last line with `ok`, before which lines with `progress` may come,
for people who wait. What is too long, no JSON or no command is a `UsageError`, told to the peer; then the connection
ends, and nothing else does.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import orjson

from pyrula_runtime.core.errors import UsageError

MAX_REQUEST = 4096
COMMANDS = ("status", "version", "stop", "reload", "scale", "restart", "dump")
_NUMBERED = {"scale": "procs", "restart": "slot", "dump": "slot"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What somebody wants. `number` is the procs to scale to, or the slot to restart or dump."""

    command: str
    wait: bool = False
    number: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The last line of an answer."""

    ok: bool
    text: str = ""
    document: dict[str, Any] | None = None


class Lines:
    """Cuts a stream of bytes into lines, none longer than a limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = b""

    def receive(self, data: bytes) -> list[bytes]:
        """The lines that are whole now, without their ends. Raises UsageError if one is too long."""
        *lines, self._kept = (self._kept + data).split(b"\n")
        if max(map(len, (*lines, self._kept))) > self._limit:
            raise UsageError(f"a line is longer than {self._limit:,} bytes")
        return lines


def encoded(told: Request | Reply) -> bytes:
    """A request or a last line, as it is sent."""
    return orjson.dumps(asdict(told)) + b"\n"


def progress(text: str) -> bytes:
    """A line for somebody who waits."""
    return orjson.dumps({"progress": text}) + b"\n"


def request_of(line: bytes) -> Request:
    """The request of a line. Raises UsageError."""
    tree = _object(line)
    command = tree.get("command")
    if command not in COMMANDS:
        raise UsageError(
            f"this supervisor knows no command {command!r}, only {', '.join(COMMANDS)}; it may be of another version"
        )
    number = tree.get("number", -1)
    if not isinstance(number, int) or isinstance(number, bool) or (command in _NUMBERED and number < 0):
        raise UsageError(f"{command} needs a number ({_NUMBERED.get(command, 'none')}), but was given {number!r}")
    return Request(command=command, wait=tree.get("wait") is True, number=number)


def reply_of(line: bytes) -> Reply | str:
    """The last line of an answer, or the text of a line of progress. Raises UsageError."""
    tree = _object(line)
    if isinstance(text := tree.get("progress"), str):
        return text
    document = tree.get("document")
    return Reply(
        ok=tree.get("ok") is True,
        text=str(tree.get("text", "")),
        document=document if isinstance(document, dict) else None,
    )


def _object(line: bytes) -> dict[str, Any]:
    try:
        tree = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise UsageError(f"a line of {len(line)} bytes is no JSON: {error}") from error
    if not isinstance(tree, dict):
        raise UsageError("a line must hold one JSON object")
    return tree
