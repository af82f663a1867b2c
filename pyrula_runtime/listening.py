"""A port for probes, or one sentence why it cannot be had and what to do."""

from __future__ import annotations

import errno
import os
import socket

from pyrula_runtime.core.errors import ConfigurationError

# connections that the kernel keeps while we are busy: a crowd that comes at once is not told to come again in a second
BACKLOG = 1024

_WHY_NOT = {
    errno.EADDRINUSE: "it is in use by another program; end that program",
    errno.EACCES: "this user may not open it; take one above 1023",
    errno.EADDRNOTAVAIL: "this host does not have that address; use 127.0.0.1 or 0.0.0.0",
}


def listening_on(host: str, port: int) -> socket.socket:
    """A socket that listens on this port; ConfigurationError says whose port it is and what to do."""
    where = f"health port {port} on {host} (--health-port, --health-host)"
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:
        raise ConfigurationError([f"{where}: {host!r} is no address of this host ({error})"]) from error
    family, kind, protocol, _, address = found[0]
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        # listened to here already: of two that bind the same port at once, SO_REUSEADDR refuses one only now
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        reason = _WHY_NOT.get(error.errno or 0, os.strerror(error.errno or 0))
        raise ConfigurationError([f"{where} cannot be opened: {reason}, or give another port"]) from error
    listening.setblocking(False)
    return listening


def url_of(listening: socket.socket) -> str:
    """Where it is reached from this host."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
