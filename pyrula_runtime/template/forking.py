"""Forks: each message brings a child's start and its line; the child becomes the supervisor's, never ours.

The process between tells its child's pid by a pipe and is gone. The child itself waits for its adoption (see
`hygiene`), so the template is free again after two forks and one wait.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import NoReturn

from pyrula_runtime import child
from pyrula_runtime.leaving import quit_at_once
from pyrula_runtime.uplink import Uplink
from pyrula_runtime.wire import MAX_PACKET, CannotStart, Drain, Fork, Forked, Message

_PID = struct.Struct("i")
_FAILED = 1


@contextlib.contextmanager
def _never_returning() -> Iterator[None]:
    """Leave the process at the end, also by an error: what was forked must not go on as the template."""
    try:
        yield
    except BaseException:  # noqa: BLE001 - whatever it is, it ends here, and is told
        traceback.print_exc()
        quit_at_once(_FAILED)
    os._exit(0)


class Forking:
    """The template's one occupation, once it is ready. `on_fork` runs first in every child."""

    def __init__(self, uplink: Uplink, on_fork: Callable[[], None]) -> None:
        self._uplink = uplink
        self._on_fork = on_fork

    def serve(self) -> None:
        """Fork whatever is asked for, until told to leave or the supervisor is gone."""
        poll = select.poll()
        poll.register(self._uplink.fileno(), select.POLLIN)
        with contextlib.suppress(EOFError):
            while True:
                poll.poll()
                while (heard := self._uplink.hear()) is not None:
                    if isinstance(heard.message, Drain):
                        return
                    self._obey(heard.message, [socket.socket(fileno=fd) for fd in heard.fds])

    def _obey(self, message: Message, lines: list[socket.socket]) -> None:
        if isinstance(message, Fork) and len(lines) == 1:
            incarnation = message.start.incarnation
            try:
                pid = self._forked(lines[0])
            except OSError as error:
                _refuse(lines[0], incarnation, f"the template could not fork: {error.strerror}")
            else:
                self._uplink.say(Forked(incarnation=incarnation, pid=pid))
        for line in lines:
            line.close()

    def _forked(self, line: socket.socket) -> int:
        """The pid of a new child that has this line; OSError if there can be none."""
        sys.stdout.flush()
        sys.stderr.flush()
        pid_in, pid_out = os.pipe()
        with open(pid_in, "rb") as told, open(pid_out, "wb", buffering=0) as telling:
            between = os.fork()
            if between == 0:
                with _never_returning():
                    pid = os.fork()
                    if pid == 0:
                        told.close()
                        telling.close()
                        self._become(line)
                    telling.write(_PID.pack(pid))
            telling.close()
            answer = told.read(_PID.size)
        with contextlib.suppress(ChildProcessError):  # an app may have asked the kernel to reap by itself
            os.waitpid(between, 0)
        if len(answer) < _PID.size:
            raise OSError(0, "the process between could not")
        (pid,) = _PID.unpack(answer)
        return int(pid)

    def _become(self, line: socket.socket) -> NoReturn:
        self._uplink.close()
        self._on_fork()
        child.run_forked(line)


def _refuse(line: socket.socket, incarnation: str, reason: str) -> None:
    """It is the child that cannot start, so it is said on the child's line."""
    with contextlib.suppress(OSError):
        line.recv(MAX_PACKET, socket.MSG_DONTWAIT)  # what is left unread would make the kernel drop what is said last
    Uplink(line).say(CannotStart(incarnation=incarnation, reason=reason, exit_code=_FAILED))
