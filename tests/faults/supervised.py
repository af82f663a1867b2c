"""A real `pyrula-supervisor` over the store of a world: started, asked, hit, stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

from pyrula_runtime.blackbox import read_box
from pyrula_runtime.core.errors import NoSupervisor
from pyrula_supervisor.asking import Door
from pyrula_supervisor.requests import Request

ROOT = Path(__file__).parents[2]
LIMIT_S = 60.0
_LOOK_S = 0.05
_NAME = "storm"
Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """How the supervisor is started."""

    store_url: str
    workflows: Sequence[str]
    flags: Sequence[str] = ()
    environ: Mapping[str, str] | None = None


class Supervised:
    """One supervisor after another in a folder of its own, with all that they start."""

    def __init__(self, folder: Path, given: Given) -> None:
        self.log = folder / "supervisor.log"
        self.process: asyncio.subprocess.Process | None = None
        self._given = given
        self._runtime = folder / "runtime"
        (self._runtime / "pyrula").mkdir(mode=0o700, parents=True)
        self._door = Door(directory=self._runtime / "pyrula", name=_NAME)

    async def start(self) -> None:
        """Start one; it may not be ready yet on return."""
        given = self._given
        served = [word for name in given.workflows for word in ("--workflow", name)]
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("PYRULA_", "XDG_"))}
        state = {"XDG_RUNTIME_DIR": str(self._runtime), "XDG_STATE_HOME": str(self._runtime)}
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "pyrula_supervisor", "--name", _NAME, "--health-port", "0"),
                *("--store", given.store_url, *served, *given.flags),
                cwd=ROOT,
                env=kept | state | dict(given.environ or {}),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        resource.prlimit(self.process.pid, resource.RLIMIT_CORE, (0, 0))  # crashes leave no files

    @property
    def pid(self) -> int:
        """The supervisor's pid."""
        assert self.process is not None
        return self.process.pid

    def document(self) -> dict[str, Any]:
        """The status document; an empty one while nobody answers."""
        with contextlib.suppress(NoSupervisor):
            return self._door.ask(Request(command="status")).document or {}
        return {}

    def rows(self, *roles: str) -> list[Row]:
        """The children of these roles that are there."""
        return [row for row in self.document().get("children", []) if row["role"] in roles and row["pid"]]

    def command(self, command: str, number: int = -1) -> None:
        """Ask for something, and wait for nothing."""
        with contextlib.suppress(NoSupervisor):
            self._door.ask(Request(command=command, number=number))

    def box_of(self, row: Row) -> Path:
        """Where the black box of a child is."""
        return self._runtime / "pyrula" / "boxes" / f"{row['incarnation']}.box"

    def runs_of(self, row: Row) -> list[str]:
        """The runs that a child holds, by its black box."""
        view = read_box(self.box_of(row))
        return [] if view is None or not view.held else [held.run_id for held in view.in_flight]

    def send(self, pid: int, number: signal.Signals) -> bool:
        """A signal to one of its processes; whether it still is one."""
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            if process.ppid() == self.pid:
                process.send_signal(number)
                return True
        return False

    def halt(self, pid: int) -> None:
        """Stop one of its processes, and wait until it stands: one that has a processor goes on for a moment."""
        is_ours = self.send(pid, signal.SIGSTOP)
        while is_ours and not _stands(pid):
            os.sched_yield()

    async def ready(self, count: int = 1) -> list[Row]:
        """Wait until so many workers serve."""
        async with asyncio.timeout(LIMIT_S):
            while len(found := [row for row in self.rows("worker") if row["state"] == "ready"]) < count:
                await asyncio.sleep(_LOOK_S)
                assert self.process is None or self.process.returncode is None, self.tail()
        return found

    async def stop(self) -> int:
        """Drain: the exit code."""
        assert self.process is not None
        self.process.terminate()
        async with asyncio.timeout(LIMIT_S):
            return await self.process.wait()

    async def kill(self) -> None:
        """End it, with all that it has started, and wait for the end."""
        if self.process is None or self.process.returncode is not None:
            return
        left = psutil.Process(self.pid).children(recursive=True)
        self.process.kill()
        await self.process.wait()
        for each in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()

    def tail(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-3_000:]


def _stands(pid: int) -> bool:
    """Whether a signal has stopped all threads of a process, or it is no more."""
    try:
        stats = [(task / "stat").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return not Path(f"/proc/{pid}/task").exists()
    return {stat.rpartition(")")[2].split()[0] for stat in stats} <= {"T", "Z", "X"}
