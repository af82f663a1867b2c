"""HTTP for probes as a machine without I/O: bytes in, bytes out, whoever owns the socket.

The parent must answer within milliseconds from one small thread, so it takes no web server in: h11 parses, this bounds.
A page is asked for by GET or HEAD, its answer is whole at once, and one call of `receive` makes at most one answer: a
client that sends a second request before it has its answer gets the first and the end of the connection, so that
nobody can have a thousand answers made with one packet. Bodies are not read: who sends one is answered and cut off.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import h11
import orjson

# request line and headers (bytes); probes need some hundred, browsers with cookies some thousand
MAX_HEAD = 8192

_METHODS = (b"GET", b"HEAD")
_PLAIN = "text/plain; charset=utf-8"
_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The answer to a request."""

    status: int
    body: bytes
    kind: str = _PLAIN
    allow: str = ""

    @classmethod
    def json(cls, status: int, tree: object) -> Page:
        """A page that holds a JSON document."""
        return cls(status=status, body=orjson.dumps(tree) + b"\n", kind="application/json")


class ProbeConnection:
    """One connection of a client; `pages` gives the page of a path, or None if there is none."""

    def __init__(self, pages: Callable[[str], Page | None]) -> None:
        self._pages = pages
        self._parser = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
        self._head_size = 0
        self._wants_body = True
        self.is_over = False

    def receive(self, data: bytes) -> bytes:
        """What to send after these bytes came; none mean that the client ended. Then look at `is_over`."""
        if self.is_over:
            return b""
        self._head_size += len(data)
        try:
            self._parser.receive_data(data)
            event = self._parser.next_event()
        except h11.RemoteProtocolError as error:
            return self._last(_refusal(error.error_status_hint))
        if isinstance(event, h11.Request):
            return self._answer(event)
        self.is_over = isinstance(event, h11.ConnectionClosed)
        return b""

    def _answer(self, request: h11.Request) -> bytes:
        if self._head_size - len(self._parser.trailing_data[0]) > MAX_HEAD:
            return self._last(_refusal(431))
        self._wants_body = request.method != b"HEAD"
        page = self._page(request)
        try:
            is_whole = isinstance(self._parser.next_event(), h11.EndOfMessage)
        except h11.RemoteProtocolError:  # a body that is none
            is_whole = False
        if not is_whole or self._parser.trailing_data[0]:
            return self._last(page)
        told = self._told(page)
        if self._parser.our_state is h11.DONE:
            self._parser.start_next_cycle()
            self._head_size = 0
        else:  # the client asked for it, or speaks a version that knows no other way
            self.is_over = True
        return told

    def _page(self, request: h11.Request) -> Page:
        path = request.target.decode("ascii").partition("?")[0]
        page = self._pages(path)
        if page is None:
            return Page(status=404, body=b"there is no such page\n")
        if request.method not in _METHODS:
            return Page(status=405, body=b"this page can only be read: use GET or HEAD\n", allow="GET, HEAD")
        return page

    def _last(self, page: Page) -> bytes:
        self.is_over = True
        return self._told(page, (("connection", "close"),))

    def _told(self, page: Page, more: tuple[tuple[str, str], ...] = ()) -> bytes:
        headers = [
            ("content-type", page.kind),
            ("content-length", str(len(page.body))),
            ("cache-control", "no-store"),
            *((("allow", page.allow),) if page.allow else ()),
            *more,
        ]
        reason = _REASONS.get(page.status, "")
        head = h11.Response(status_code=page.status, headers=headers, reason=reason)
        body = page.body if self._wants_body else b""
        parts = (head, h11.Data(data=body), h11.EndOfMessage())
        return b"".join(self._parser.send(part) or b"" for part in parts)


def _refusal(status: int) -> Page:
    if status == 431:
        return Page(status=431, body=f"the request's head is longer than {MAX_HEAD} bytes\n".encode())
    return Page(status=400, body=b"this is no HTTP request\n")
