"""A supervised worker: entry of worker, surge and cell processes. `python -m pyrula_runtime.child FD`, or a fork.

The order of birth: the start is read, the process is made clean, the supervisor hears that it lives, the app is
imported, the app's `after_fork` hook runs, and only now the store is opened, so that no connection is older than the
process. Then it is a worker like any other, with other ears: it tells its supervisor how it is, once a second, and
what the watchdog sees at once and from the watchdog's own thread, since the control thread may be busy.

The order of death: SIGTERM or `Drain` drains, as often as they come. The end of the line is the end of the supervisor:
then there is nobody to live for, and the process is gone at once; its runs go on elsewhere as after a crash. A second
signal for the whole service is the supervisor's to obey: it kills.

The stack of its lane is sent when it is asked for; when the GIL is held it is written by a signal (see stacks).
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import signal
import socket
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from setproctitle import setproctitle

from pyrula_runtime import hygiene, stacks
from pyrula_runtime.core.errors import ConfigurationError, StoreUnavailable
from pyrula_runtime.leaving import leave, quit_at_once
from pyrula_runtime.runtime_dir import runtime_dir
from pyrula_runtime.uplink import Uplink
from pyrula_runtime.wire import (
    Blocked,
    CannotStart,
    Drain,
    Dump,
    Hello,
    Message,
    Ready,
    Report,
    Role,
    Stack,
    Start,
    Unblocked,
    WireError,
    cut,
)

if TYPE_CHECKING:
    from pyrula_runtime.engine.program import Program
    from pyrula_runtime.engine.watchdog import Block
    from pyrula_runtime.worker import Ears, Worker

log = logging.getLogger("pyrula.worker")

CLEAN, FAILED, CONFIGURATION = 0, 1, 78
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
        self._stop_asked = False
        self._serves: tuple[str, ...] = ()
        self._worker: Worker | None = None
        self._loop = asyncio.new_event_loop()

    def live(self) -> int:
        """Be born, serve, drain; the exit code."""
        from pyrula_runtime.workflows.logs import log_without_waiting

        start = self._start
        signal.signal(signal.SIGTERM, self._terminated)
        self._title("starting")
        log_without_waiting("json" if start.log_format == "json" else "text", start.log_level)
        self._uplink.say(Hello(incarnation=start.incarnation, pid=os.getpid()))
        try:
            directory = runtime_dir(os.environ)
            stack_file = stacks.write_on_signal(directory, start.incarnation)
            worker = self._made(directory)
            asyncio.set_event_loop(self._loop)
            code = self._loop.run_until_complete(self._serve(worker))
        except ConfigurationError as error:
            self._cannot_start(error)
            return CONFIGURATION
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if stack_file is not None:
            stacks.forget(stacks.stack_path(directory, start.incarnation))
        return code

    # birth

    def _made(self, directory: Path) -> Worker:
        """The worker, not started yet. Raises ConfigurationError for whatever the app or the settings do wrong."""
        from pyrula_runtime.options import WorkerOptions
        from pyrula_runtime.stores.opening import open_store
        from pyrula_runtime.worker import Worker, WorkerSetup

        start = self._start
        options = WorkerOptions.from_env({}, **start.options)
        if start.role is Role.cell:
            options = dataclasses.replace(options, max_concurrent_turns=1)
        setup = WorkerSetup(
            programs=self._programs(),
            store=open_store(start.store_url),
            options=options,
            runtime_dir=directory,
            worker_id=start.worker_id or None,
            incarnation=start.incarnation,
            duties=False,
            ears=self._ears(),
        )
        return Worker(setup)

    def _programs(self) -> list[Program]:
        from pyrula_runtime.workflows import app

        found = app.programs(self._start.workflows)
        if self._start.after_fork:
            app.call_hook("after_fork", self._start.after_fork)
        self._serves = tuple(sorted(program.name for program in found))
        return found

    def _cannot_start(self, error: ConfigurationError) -> None:
        from pyrula_runtime.workflows import app

        message = CannotStart(
            incarnation=self._start.incarnation,
            reason=cut(str(error)),
            traceback=cut(app.story(error)),
            exit_code=CONFIGURATION,
        )
        if not self._uplink.say(message):
            log.error("cannot start: %s\n%s", message.reason, message.traceback)

    # life, on the control thread

    async def _serve(self, worker: Worker) -> int:
        self._worker = worker
        self._loop.add_reader(self._uplink.fileno(), self._hear)
        while not self._stop_asked:
            try:
                return await worker.run()
            except StoreUnavailable as error:
                if worker.health.started:
                    raise
                log.error("the store cannot be opened, and is tried again: %s", error)
                await asyncio.sleep(_STORE_AWAY_S)
        return CLEAN

    def _ears(self) -> Ears:
        from pyrula_runtime.worker import Ears

        return Ears(ready=self._ready, blocked=self._blocked, unblocked=self._unblocked)

    def _ready(self) -> None:
        self._title("draining" if self._stop_asked else "serving")
        self._uplink.say(Ready(incarnation=self._start.incarnation, serves=self._serves))
        self._report()

    def _report(self) -> None:
        self._loop.call_later(_REPORT_S, self._report)
        self._tell()

    def _tell(self) -> None:
        worker = self._working()
        health = worker.health
        report = Report(
            incarnation=self._start.incarnation,
            turns_running=worker.turns_running,
            turns_done=worker.turns_done,
            capacity=worker.capacity,
            lane_lag_ms=round(worker.take_lane_lag_ms(), 1),
            draining=self._stop_asked or health.draining,
            store_ok=not health.store_fault,
            store_fault=cut(health.store_fault),
            loop_failed=health.failed_loop,
        )
        self._uplink.say(report)

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
            self._uplink.say(Stack(incarnation=self._start.incarnation, text=cut(self._working().lane_stack())))

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

        whose = block.whose
        message = Blocked(
            incarnation=self._start.incarnation,
            run_id="" if whose is None else whose.run_id,
            workflow="" if whose is None else whose.workflow,
            step="" if whose is None else whose.step,
            for_s=round(block.for_s, 3),
            line=cut(block.line),
            stack=cut(block.stack),
        )
        self._uplink.say(message)
        log_block(block)

    def _unblocked(self, after_s: float) -> None:
        from pyrula_runtime.engine.watchdog import log_end

        self._uplink.say(Unblocked(incarnation=self._start.incarnation, after_s=round(after_s, 3)))
        log_end(after_s)

    def _title(self, state: str) -> None:
        start = self._start
        setproctitle(f"pyrula-{start.role} {start.supervisor}[{start.slot}] {state}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
