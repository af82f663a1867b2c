"""Asking a supervisor through its control socket: one request, what is said on the way, and the last line.

Whoever does not get an answer hears why in one sentence: nobody has the name, somebody has it and does not listen, or
does not talk to us.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pyrula_runtime.core.errors import NoSupervisor
from pyrula_supervisor.naming import address_of, is_taken, names_taken, socket_path
from pyrula_supervisor.requests import Lines, Reply, Request, encoded, reply_of

# how long a supervisor may be silent: it speaks every two seconds to those who wait
_SILENCE_S = 10.0
# documents have the stacks of all blocked children in them
_MAX_LINE = 64 * 1024 * 1024
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """Where a supervisor of this name is spoken to."""

    directory: Path
    name: str

    @property
    def path(self) -> Path:
        """The socket."""
        return socket_path(self.directory, self.name)

    def ask(self, request: Request, on_progress: Callable[[str], None] | None = None) -> Reply:
        """The answer to a request. Raises NoSupervisor."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(_SILENCE_S)
            try:
                with address_of(self.path) as address:
                    sock.connect(address)
                sock.sendall(encoded(request))
            except BrokenPipeError:
                pass  # refused before it was read; why is there to be read
            except TimeoutError:
                raise self._silent() from None
            except OSError as error:
                raise self._nobody(error) from error
            for told in self._heard(sock):
                if isinstance(told, Reply):
                    return told
                if on_progress is not None:
                    on_progress(told)
        raise NoSupervisor(f"the supervisor {self.name!r} ended before it had answered")

    def _heard(self, sock: socket.socket) -> Iterator[Reply | str]:
        lines = Lines(_MAX_LINE)
        while True:
            try:
                data = sock.recv(_CHUNK)
            except ConnectionResetError:
                return
            except TimeoutError:
                raise self._silent() from None
            if not data:
                return
            yield from map(reply_of, lines.receive(data))

    def _nobody(self, error: OSError) -> NoSupervisor:
        if isinstance(error, PermissionError):
            return NoSupervisor(f"this user may not speak to the supervisor {self.name!r} at {self.path}")
        if is_taken(self.directory, self.name):
            return NoSupervisor(
                f"the supervisor {self.name!r} does not listen at {self.path}: it starts or ends just now"
            )
        others = names_taken(self.directory)
        running = f" (here run: {', '.join(others)})" if others else ""
        return NoSupervisor(
            f"no supervisor named {self.name!r} runs here (none listens at {self.path}); --name chooses another one"
            f"{running}, and for one under systemd set RUNTIME_DIRECTORY to its runtime directory, such as /run/pyrula"
        )

    def _silent(self) -> NoSupervisor:
        return NoSupervisor(
            f"the supervisor {self.name!r} has been silent for {_SILENCE_S:g} s: it is stopped or gets no CPU; see ps"
        )
