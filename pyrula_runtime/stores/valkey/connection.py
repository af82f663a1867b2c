"""Opens a socket to a server and introduces us, in a thread: whoever reads from it afterwards does so without waiting.

Only the hand-over differs between a lane and a subscription, so both begin here.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterable
from typing import Any

import hiredis

from pyrula_runtime.core.errors import PyrulaError, StoreRefused, StoreUnavailable
from pyrula_runtime.stores.valkey import failures
from pyrula_runtime.stores.valkey.address import Address, Tls

Argument = str | bytes | int
_READ_BYTES = 65_536
# waiting, for a socket that does not wait
NOT_NOW = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


def pack(command: tuple[Argument, ...]) -> bytes:
    """A command as the server reads it."""
    packed: bytes = hiredis.pack_command(command)  # type: ignore[arg-type]  # the stub allows one word only
    return packed


class Connection:
    """A connected, introduced socket with the parser of its replies."""

    def __init__(self, address: Address, connected: socket.socket) -> None:
        self.address = address
        self.socket = connected
        self.replies = hiredis.Reader(replyError=hiredis.ReplyError, notEnoughData=NOTHING)

    def ask(self, commands: Iterable[tuple[Argument, ...]]) -> list[Any]:
        """Send commands and wait for their replies; a reply that is an error is returned, not raised."""
        packed = [pack(command) for command in commands]
        self.socket.sendall(b"".join(packed))
        return [self._reply() for _ in packed]

    def _reply(self) -> Any:
        while (reply := self.replies.gets()) is NOTHING:
            some = self.socket.recv(_READ_BYTES)
            if not some:
                raise ConnectionResetError("the server closed the connection")
            self.replies.feed(some)
        return reply


class _Nothing:
    """No whole reply has come yet; None is a reply."""


NOTHING = _Nothing()


def connect(address: Address, connect_s: float, name: str) -> Connection:
    """A connection that is ready for commands. Raises StoreUnavailable or StoreRefused."""
    try:
        opened = _open(address, connect_s)
    except ssl.SSLCertVerificationError as error:
        raise StoreRefused(
            f"the server at {address.place} does not prove who it is ({error.verify_message}); give its authority as "
            f"ssl_ca_certs in the store URL"
        ) from error
    except (OSError, ssl.SSLError) as error:
        raise StoreUnavailable(f"the store at {address.place} cannot be reached: {_reason(error)}") from error
    try:
        return _introduce(address, opened, name)
    except BaseException:
        opened.close()
        raise


Outcome = Connection | PyrulaError


def reach(loop: asyncio.AbstractEventLoop, make: Callable[[], Connection], told: Callable[[Outcome], None]) -> None:
    """Make a connection in a thread of its own, since the loop's pool may be full of blocking steps, and tell the loop.

    No task waits for it: the loop may be stopped at any time, by people who never heard of us.
    """

    def work() -> None:
        outcome: Outcome
        try:
            outcome = make()
        except PyrulaError as error:
            outcome = error
        try:
            loop.call_soon_threadsafe(told, outcome)
        except RuntimeError:  # the loop was closed meanwhile
            if isinstance(outcome, Connection):
                outcome.socket.close()

    threading.Thread(target=work, name="pyrula-store-connect", daemon=True).start()


def _reason(error: Exception) -> str:
    return "no answer in time" if isinstance(error, TimeoutError) else str(error)


def _open(address: Address, connect_s: float) -> socket.socket:
    if address.path:
        local = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        local.settimeout(connect_s)
        try:
            local.connect(address.path)
        except OSError:
            local.close()
            raise
        return local
    plain = socket.create_connection((address.host, address.port), connect_s)
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return plain if address.tls is None else _wrap(plain, address.tls, address.host)
    except BaseException:
        plain.close()
        raise


def _wrap(plain: socket.socket, tls: Tls, host: str) -> socket.socket:
    context = ssl.create_default_context(cafile=tls.ca_certs)
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.certfile:
        context.load_cert_chain(tls.certfile, tls.keyfile)
    return context.wrap_socket(plain, server_hostname=host)


def _introduce(address: Address, opened: socket.socket, name: str) -> Connection:
    connection = Connection(address, opened)
    commands: list[tuple[Argument, ...]] = []
    if address.password is not None:
        commands.append(("AUTH", *([address.user] if address.user else []), address.password))
    if address.db:
        commands.append(("SELECT", address.db))
    commands.append(("CLIENT", "SETNAME", name))
    try:
        replies = connection.ask(commands)
    except TimeoutError as error:
        raise StoreUnavailable(f"the store at {address.place} does not answer") from error
    except (OSError, hiredis.HiredisError) as error:
        raise StoreUnavailable(f"the store at {address.place} cannot be used: {error}") from error
    # a name is a courtesy that a user's rights may not cover
    for command, reply in zip(commands, replies, strict=True):
        if isinstance(reply, hiredis.ReplyError) and command[0] == "SELECT" and failures.code_of(reply) == "ERR":
            raise StoreRefused(f"the server at {address.place} has no database {address.db} ({reply})")
        if isinstance(reply, hiredis.ReplyError) and command[0] != "CLIENT":
            raise failures.ours(reply, address.place)
    return connection
