"""A supervised worker: entry of worker, surge and cell processes. `python -m pyrula_runtime.child FD`, or a fork.

The order of birth: the start is read, the process is made clean, the supervisor hears that it lives, the app is
imported, the app's `after_fork` hook runs, and only now the store is opened, so that no connection is older than the
process. Then it is a worker like any other, with other ears: it tells its supervisor how it is, once a second, and
what the watchdog sees at once and from the watchdog's own thread, since the control thread may be busy.

The order of death: SIGTERM or `Drain` drains, as often as they come. The end of the line is the end of the supervisor:
then there is nobody to live for, and the process is gone at once; its runs go on elsewhere as after a crash. A second
signal for the whole service is the supervisor's to obey: it kills.

The stack of its lane is sent when it is asked for; when the GIL is held it is written by a signal, as is that of a
thread that crashes (see stacks).
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING, NoReturn

from setproctitle import setproctitle

from pyrula_runtime import hygiene, stacks
from pyrula_runtime.core.errors import ConfigurationError, StoreUnavailable
from pyrula_runtime.core.locks import block_limit_s
from pyrula_runtime.leaving import leave, quit_at_once
from pyrula_runtime.runtime_dir import runtime_dir
from pyrula_runtime.uplink import Uplink
from pyrula_runtime.voice import Voice
from pyrula_runtime.wire import Drain, Dump, Message, Role, Start, WireError

if TYPE_CHECKING:
    from pyrula_runtime.engine.program import Program
    from pyrula_runtime.engine.watchdog import Block
    from pyrula_runtime.worker import Ears, Worker
    from pyrula_runtime.worker_setup import WorkerRole

log = logging.getLogger("pyrula.worker")

CLEAN, FAILED, CONFIGURATION = 0, 1, 78
_ROLES: dict[Role, WorkerRole] = {Role.worker: "worker", Role.surge: "surge", Role.cell: "cell"}
_REPORT_S = 1.0
# the pause before a store that is away is tried again
_STORE_AWAY_S = 1.0


def main(fd: int) -> NoReturn:
    """Be the worker of the supervisor at the other end of this descriptor."""
    try:
        uplink = Uplink.from_fd(fd)
        start = uplink.read_start()
    except (EOFError, OSError, WireError) as error:
        sys.exit(f"pyrula worker: this command is for supervisors, and none has told what to do: {error}")
    hygiene.clean_spawned(start, os.environ)
    _live(start, uplink)


def run_forked(sock: socket.socket) -> NoReturn:
    """Be the worker of the supervisor at the other end of this socket; called in a child of the template's child."""
    uplink = Uplink(sock)
    try:
        start = uplink.read_start()
    except (EOFError, OSError, WireError):
        quit_at_once(FAILED)
    hygiene.clean_forked(start, os.environ, sock.fileno())
    _live(start, uplink)


def _live(start: Start, uplink: Uplink) -> NoReturn:
    code = FAILED
    try:
        code = _Child(start, uplink).live()
    except BaseException as error:  # whatever it is, a forked child must not return into its template
        log.critical("the worker failed", exc_info=error)
    leave(code)


class _Child:
    """The process's one life."""

    def __init__(self, start: Start, uplink: Uplink) -> None:
        self._start = start
        self._uplink = uplink
        self._voice = Voice(start, uplink)
        self._stop_asked = False
        self._serves: tuple[str, ...] = ()
        self._limits_ms: dict[str, int] = {}
        self._worker: Worker | None = None
        self._loop = asyncio.new_event_loop()

    def live(self) -> int:
        """Be born, serve, drain; the exit code."""
        from pyrula_runtime.workflows.logs import log_without_waiting

        start = self._start
        signal.signal(signal.SIGTERM, self._terminated)
        self._title("starting")
        log_without_waiting("json" if start.log_format == "json" else "text", start.log_level)
        self._voice.hello()
        try:
            directory = runtime_dir(os.environ)
            worker = self._made(directory, stacks.write_at_death(directory, start.incarnation))
            asyncio.set_event_loop(self._loop)
            code = self._loop.run_until_complete(self._serve(worker))
        except ConfigurationError as error:
            self._voice.cannot_start(error, CONFIGURATION)
            return CONFIGURATION
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        stacks.forget(stacks.stack_path(directory, start.incarnation))
        return code

    # birth

    def _made(self, directory: Path, stack_file: IO[bytes]) -> Worker:
        """The worker, not started yet. Raises ConfigurationError for whatever the app or the settings do wrong."""
        from pyrula_runtime.options import WorkerOptions
        from pyrula_runtime.stores.opening import open_store
        from pyrula_runtime.worker import Worker, WorkerSetup
        from pyrula_runtime.workflows import app

        start = self._start
        options = WorkerOptions.from_env({}, **start.options)
        programs = self._programs()
        self._limits_ms = _longer_limits_ms(programs, options.lock_ttl)
        setup = WorkerSetup(
            programs=programs,
            store=open_store(start.store_url, shard_count=options.shard_count),
            options=options,
            runtime_dir=directory,
            worker_id=start.worker_id or None,
            incarnation=start.incarnation,
            role=_ROLES[start.role],
            stack_file=stack_file,
            ears=self._ears(),
            codec=app.codec(options.codec),
        )
        return Worker(setup)

    def _programs(self) -> list[Program]:
        from pyrula_runtime.workflows import app

        found = app.programs(self._start.workflows)
        if self._start.after_fork:
            app.call_hook("after_fork", self._start.after_fork)
        self._serves = tuple(sorted(program.name for program in found))
        return found

    # life, on the control thread

    async def _serve(self, worker: Worker) -> int:
        self._worker = worker
        self._loop.add_reader(self._uplink.fileno(), self._hear)
        while not self._stop_asked:
            try:
                code = await worker.run()
                self._tell()  # the last second, too: all that a quick cell has done was done in it
                return code
            except StoreUnavailable as error:
                if worker.health.started:
                    raise
                log.error("the store cannot be opened, and is tried again: %s", error)
                await asyncio.sleep(_STORE_AWAY_S)
        return CLEAN

    def _ears(self) -> Ears:
        from pyrula_runtime.worker import Ears

        return Ears(
            ready=self._ready, blocked=self._blocked, unblocked=self._unblocked, evacuated=self._voice.evacuated
        )

    def _ready(self) -> None:
        self._title("draining" if self._stop_asked else "serving")
        self._voice.ready(self._serves, self._limits_ms)
        self._report()

    def _report(self) -> None:
        self._loop.call_later(_REPORT_S, self._report)
        self._tell()

    def _tell(self) -> None:
        self._voice.report(self._working(), draining=self._stop_asked)

    def _working(self) -> Worker:
        assert self._worker is not None
        return self._worker

    def _hear(self) -> None:
        try:
            while (heard := self._uplink.hear()) is not None:
                for fd in heard.fds:
                    os.close(fd)
                self._obey(heard.message)
        except EOFError:
            quit_at_once(FAILED)

    def _obey(self, message: Message) -> None:
        if isinstance(message, Drain):
            self._drain()
        elif isinstance(message, Dump):
            self._voice.stack(self._working().lane_stack())

    def _drain(self) -> None:
        if not self._stop_asked or not self._working().health.draining:
            self._stop_asked = True
            self._title("draining")
            self._working().request_stop()
            self._tell()

    def _terminated(self, _number: int, _frame: FrameType | None) -> None:
        """SIGTERM, between any two instructions of the control thread."""
        if self._worker is None:  # nothing has been begun
            quit_at_once(CLEAN)
        self._loop.call_soon_threadsafe(self._drain)

    # what the watchdog sees, on its thread

    def _blocked(self, block: Block) -> None:
        from pyrula_runtime.engine.watchdog import log_block

        self._voice.blocked(block)
        log_block(block)

    def _unblocked(self, after_s: float) -> None:
        from pyrula_runtime.engine.watchdog import log_end

        self._voice.unblocked(after_s)
        log_end(after_s)

    def _title(self, state: str) -> None:
        start = self._start
        setproctitle(f"pyrula-{start.role} {start.supervisor}[{start.slot}] {state}")


def _longer_limits_ms(programs: list[Program], lock_ttl_s: float) -> dict[str, int]:
    """How long the code of a workflow may keep its lane, of those that may for longer than usual."""
    usual_s = block_limit_s(lock_ttl_s, None)
    limits_s = {each.name: block_limit_s(lock_ttl_s, each.timeout_s) for each in programs}
    return {name: round(limit_s * 1000) for name, limit_s in limits_s.items() if limit_s > usual_s}


if __name__ == "__main__":
    main(int(sys.argv[1]))
