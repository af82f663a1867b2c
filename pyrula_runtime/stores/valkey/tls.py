"""Whether a server speaks TLS on a port that is addressed without, or the other way round.

Neither side of such a pair can say so: the server takes a TLS greeting for the beginning of a command and waits for its
end, or hangs up on a command that is no TLS greeting. So when a store cannot be opened, and only then, the server is
asked once in the other tongue.
"""

from __future__ import annotations

import socket
import ssl

from pyrula_runtime.core.errors import StoreRefused
from pyrula_runtime.stores.valkey.address import Address

# whoever answers in the other tongue has time, for what is said here is no secret and binds nobody (seconds)
_PATIENCE_S = 2.0


def misunderstanding(address: Address) -> StoreRefused | None:
    """What to tell the operator if the server speaks only the other tongue; None if it speaks neither now."""
    if address.path:
        return None
    if address.tls and _speaks_plain(address):
        return StoreRefused(
            f"the server at {address.place} speaks no TLS on this port; write valkey:// or redis:// into the store "
            f"URL, or the port on which it speaks TLS"
        )
    if not address.tls and _speaks_tls(address):
        return StoreRefused(
            f"the server at {address.place} speaks only TLS on this port; write valkeys:// or rediss:// into the store "
            f"URL, or the port on which it speaks without"
        )
    return None


def _reach(address: Address) -> socket.socket:
    return socket.create_connection((address.host, address.port), _PATIENCE_S)


def _speaks_plain(address: Address) -> bool:
    try:
        with _reach(address) as knock:
            knock.sendall(b"PING\r\n")
            return knock.recv(1) in (b"+", b"-")  # an answer, be it that it wants a password first
    except OSError:
        return False


def _speaks_tls(address: Address) -> bool:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is told it, nothing believed
    try:
        with _reach(address) as knock, context.wrap_socket(knock, server_hostname=address.host):
            return True
    except OSError:
        return False
