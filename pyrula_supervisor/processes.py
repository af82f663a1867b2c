"""The supervisor's processes: made, adopted, signalled, reaped.

**Identity.** A pid is a process only while we have not reaped it. We alone reap, in one thread, so a pid in the table
cannot have become somebody else's. A group's number lives as long as its leader's corpse, so the group of a dead child
is killed between seeing it dead and reaping it.

**Reaping.** Every child that dies is reaped, also those nobody knows: a subreaper gets the orphans of its children. A
child that a template forks becomes ours by adoption; it may be dead and reaped before we hear its pid, so unknown dead
are remembered as long as a fork is awaited.

**Never fork here.** `subprocess` makes new programs without running Python in the child. Its objects are kept until we
have reaped and told them so; otherwise it would reap by itself and take the exit status with it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pyrula_runtime.hygiene import INCARNATION_MARK, NOT_INHERITED, SUPERVISOR_MARK
from pyrula_runtime.wire import Role

_MODULES = {Role.clerk: "pyrula_runtime.clerk", Role.template: "pyrula_runtime.template"}
_WORKER_MODULE = "pyrula_runtime.child"
# unknown dead that are remembered while a fork is awaited; more die only in a storm, and then the newest count
_MAX_UNKNOWN = 256
# one kilobyte on Linux, one byte elsewhere
_RSS_UNIT = 1024 if sys.platform == "linux" else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """A child that was reaped; `incarnation` is empty for one that nobody knows."""

    incarnation: str
    pid: int
    status: int  # exit code, negative for a signal
    max_rss_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Process:
    """A living child, or one whose corpse we have not seen yet."""

    incarnation: str
    role: Role
    pid: int
    pidfd: int | None
    made: subprocess.Popen[bytes] | None


class Processes:
    """All children of this process by incarnation. `mark` is this supervisor's name for its descendants."""

    def __init__(self, mark: str, environ: Mapping[str, str]) -> None:
        self._environ = {name: value for name, value in environ.items() if name not in NOT_INHERITED}
        # the title of a process may not eat the environment behind it, where the marks stand
        self._environ |= {SUPERVISOR_MARK: mark, "SPT_NOENV": "1"}
        self._living: dict[str, _Process] = {}
        self._by_pid: dict[int, _Process] = {}
        self._awaited: dict[str, Role] = {}  # forks that a template was asked for
        self._unknown_dead: dict[int, Death] = {}

    @property
    def pids(self) -> Collection[int]:
        """The pids of all living children that we know."""
        return self._by_pid.keys()

    @property
    def awaits_forks(self) -> bool:
        """Whether a child may come to life whose pid we do not know yet."""
        return bool(self._awaited)

    def knows(self, incarnation: str) -> bool:
        """Whether it lives, as far as we know."""
        return incarnation in self._living

    def workers(self) -> Collection[str]:
        """The incarnations of living children that run the user's code, but for templates."""
        return [each.incarnation for each in self._living.values() if each.role not in _MODULES]

    def spawn(self, incarnation: str, role: Role, far_end: int) -> int:
        """Execute a fresh interpreter that has this descriptor; its pid. Raises OSError."""
        made = subprocess.Popen(
            [sys.executable, "-P", "-m", _MODULES.get(role, _WORKER_MODULE), str(far_end)],
            stdin=subprocess.DEVNULL,
            pass_fds=(far_end,),
            process_group=0,
            env={**self._environ, INCARNATION_MARK: incarnation},
        )
        self._add(incarnation, role, made.pid, made)
        return made.pid

    def await_fork(self, incarnation: str, role: Role) -> None:
        """A template was asked for this one."""
        self._awaited[incarnation] = role

    def give_up_fork(self, incarnation: str) -> None:
        """It will not come."""
        self._awaited.pop(incarnation, None)
        if not self._awaited:
            self._unknown_dead.clear()

    def adopt(self, incarnation: str, pid: int) -> Death | None:
        """Take a fork that was awaited: None if it lives, else its death. Raises ProcessLookupError if it is not ours.

        A process that a template names but that is not our child is not believed in.
        """
        role = self._awaited.get(incarnation)
        if role is None or pid in self._by_pid:
            raise ProcessLookupError(f"pid {pid} is not what was asked for as {incarnation}")
        if (death := self._unknown_dead.pop(pid, None)) is not None:
            self.give_up_fork(incarnation)
            return Death(incarnation=incarnation, pid=pid, status=death.status, max_rss_bytes=death.max_rss_bytes)
        try:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            raise ProcessLookupError(f"pid {pid} is no child of this process") from None
        self._add(incarnation, role, pid, None)
        self.give_up_fork(incarnation)
        return None

    def kill(self, incarnation: str) -> None:
        """SIGKILL to a child and its group."""
        if (process := self._living.get(incarnation)) is not None:
            _kill_group(process.pid)
            _send(process, signal.SIGKILL)

    def terminate(self, incarnation: str) -> None:
        """SIGTERM to a child alone."""
        if (process := self._living.get(incarnation)) is not None:
            _send(process, signal.SIGTERM)

    def pid_of(self, incarnation: str) -> int:
        """The pid of a living child; 0 if it is not known."""
        process = self._living.get(incarnation)
        return 0 if process is None else process.pid

    def kill_all(self) -> None:
        """SIGKILL to every child and its group."""
        for incarnation in self._living:
            self.kill(incarnation)

    def reap(self) -> list[Death]:
        """Every child that has died since the last time, the unknown among them."""
        deaths = []
        while (pid := _next_dead()) != 0:
            process = self._by_pid.get(pid)
            if process is not None:
                _kill_group(pid)
            _, status, usage = os.wait4(pid, 0)
            death = Death(
                incarnation="" if process is None else process.incarnation,
                pid=pid,
                status=os.waitstatus_to_exitcode(status),
                max_rss_bytes=usage.ru_maxrss * _RSS_UNIT,
            )
            deaths.append(death)
            if process is not None:
                self._remove(process, death.status)
            elif self._awaited:
                self._remember(death)
        return deaths

    def _add(self, incarnation: str, role: Role, pid: int, made: subprocess.Popen[bytes] | None) -> None:
        process = _Process(incarnation=incarnation, role=role, pid=pid, pidfd=_pidfd(pid), made=made)
        self._living[incarnation] = process
        self._by_pid[pid] = process

    def _remove(self, process: _Process, status: int) -> None:
        del self._living[process.incarnation]
        del self._by_pid[process.pid]
        if process.pidfd is not None:
            os.close(process.pidfd)
        if process.made is not None:
            process.made.returncode = status

    def _remember(self, death: Death) -> None:
        self._unknown_dead[death.pid] = death
        if len(self._unknown_dead) > _MAX_UNKNOWN:
            del self._unknown_dead[next(iter(self._unknown_dead))]


def _next_dead() -> int:
    """The pid of a child that is dead and not reaped; 0 if there is none."""
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return 0
    return 0 if found is None else found.si_pid


def _pidfd(pid: int) -> int | None:
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:  # an old kernel, or no descriptor left: its pid does as well, for we alone reap it
        return None


def _send(process: _Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # dead, and its corpse not seen yet
        if process.pidfd is not None:
            signal.pidfd_send_signal(process.pidfd, number)
        else:
            os.kill(process.pid, number)


def _kill_group(pid: int) -> None:
    # no such group: it has not made its own yet. Not permitted: what is left of it has other rights by now.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
