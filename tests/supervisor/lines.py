"""A process of a supervisor's kind with the test as its supervisor: spawned, or forked by a template.

Each has a line of its own. What it says is waited for, never slept for. What the test started ends with it, by pid.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pyrula_runtime.wire import MAX_PACKET, Fork, Forked, Message, Role, Start, decode, encode

ROOT = Path(__file__).parents[2]
# after this long something that should come is taken as missing (seconds)
LIMIT_S = 20.0
Said = TypeVar("Said")


def open_files(pid: int) -> dict[int, str]:
    """What a process has open by descriptor; one that is closed meanwhile is left out."""
    files = {}
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            files[int(fd.name)] = os.readlink(fd)
    return files


def sockets_of(pid: int) -> set[str]:
    """The sockets that a process has open."""
    return {name for name in open_files(pid).values() if name.startswith("socket:")}


def environ_of(folder: Path) -> dict[str, str]:
    """An environment in which nothing of the person who runs the tests is seen."""
    (folder / "run").mkdir(mode=0o700, exist_ok=True)
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    return kept | {
        "HOME": str(folder / "home"),
        "XDG_STATE_HOME": str(folder / "state"),
        "XDG_RUNTIME_DIR": str(folder / "run"),
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
    }


def start_of(role: Role, incarnation: str, store_url: str = "", **more: Any) -> Start:
    """The first packet, with this process as the supervisor."""
    given: dict[str, Any] = {"slot": -1, "generation": 1, "supervisor_pid": os.getpid(), "store_url": store_url}
    return Start(role=role, incarnation=incarnation, **(given | more))


class Line:
    """The supervisor's end of a line, and the process at the other."""

    def __init__(self, ours: socket.socket, pid: int) -> None:
        ours.setblocking(False)
        self.pid = pid
        self.ours = ours
        self.said: list[Message] = []

    def say(self, message: Message) -> None:
        """Send a message."""
        self.ours.send(encode(message))

    async def told(self, kind: type[Said], **fields: object) -> Said:
        """Wait for the next message of this kind with these fields; what comes before stays in `said`."""
        async with asyncio.timeout(LIMIT_S):
            while True:
                packet = await asyncio.get_running_loop().sock_recv(self.ours, MAX_PACKET)
                assert packet, f"it hung up before it said {kind.__name__}; it said {self.said}"
                message = decode(packet)
                self.said.append(message)
                if isinstance(message, kind) and all(getattr(message, name) == fields[name] for name in fields):
                    return message

    async def hung_up(self) -> None:
        """Wait until the other end is closed everywhere."""
        with contextlib.suppress(ConnectionResetError):  # it had not read everything
            async with asyncio.timeout(LIMIT_S):
                while packet := await asyncio.get_running_loop().sock_recv(self.ours, MAX_PACKET):
                    self.said.append(decode(packet))

    def hang_up(self) -> None:
        """Close our end."""
        self.ours.close()

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    async def ended(self) -> int:
        """Wait for the end and reap: the exit code, negative for a signal."""
        pidfd = os.pidfd_open(self.pid)
        try:
            loop, over = asyncio.get_running_loop(), asyncio.Event()
            loop.add_reader(pidfd, over.set)
            async with asyncio.timeout(LIMIT_S):
                await over.wait()
            loop.remove_reader(pidfd)
        finally:
            os.close(pidfd)
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)

    async def kill(self) -> None:
        """SIGKILL, reap, hang up."""
        if self.pid:
            self.send(signal.SIGKILL)
            await self.ended()
        self.hang_up()


class Lines:
    """All processes of one test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = environ_of(folder)
        self._lines: list[Line] = []

    def spawn(self, start: Start, environ: Mapping[str, str] | None = None) -> Line:
        """A fresh interpreter for this start. What it logs goes to `<incarnation>.log`."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.send(encode(start))
        entry = start.role if start.role in (Role.clerk, Role.template) else "child"
        with theirs, self.log_of(start.incarnation).open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", f"pyrula_runtime.{entry}", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=self.environ | dict(environ or {}),
            )
        process.returncode = 0  # we reap it ourselves, by pid
        return self._kept(Line(ours, process.pid))

    def ask_fork(self, template: Line, start: Start) -> Line:
        """Ask a template for a child; whether it lives is not known yet."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.send(encode(start))
        with theirs:
            socket.send_fds(template.ours, [encode(Fork(start=start))], [theirs.fileno()])
        return self._kept(Line(ours, 0))

    async def fork(self, template: Line, start: Start) -> Line:
        """A child of the template for this start; it has said nothing yet."""
        line = self.ask_fork(template, start)
        line.pid = (await template.told(Forked, incarnation=start.incarnation)).pid
        return line

    def log_of(self, incarnation: str) -> Path:
        """Where a process's output goes."""
        return self.folder / f"{incarnation}.log"

    def _kept(self, line: Line) -> Line:
        self._lines.append(line)
        return line

    async def close(self) -> None:
        """End what still runs."""
        for line in self._lines:
            await line.kill()
