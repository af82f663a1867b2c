"""Entry of the template: import, warm up, look whether it can be forked, freeze, fork (see the package)."""

from __future__ import annotations

import faulthandler
import gc
import importlib
import os
import signal
import sys
from typing import IO, NoReturn

from setproctitle import setproctitle

from pyrula_runtime import hygiene, kernel, stacks
from pyrula_runtime.core.errors import ConfigurationError
from pyrula_runtime.leaving import quit_at_once
from pyrula_runtime.runtime_dir import runtime_dir
from pyrula_runtime.stores.opening import open_store
from pyrula_runtime.template.forking import Forking
from pyrula_runtime.template.safety import hazards
from pyrula_runtime.uplink import Uplink
from pyrula_runtime.wire import CannotStart, Hello, Ready, Start, WireError, cut
from pyrula_runtime.workflows import app
from pyrula_runtime.workflows.logs import configure_logging

CLEAN, CONFIGURATION = 0, 78
# what a child imports only when it needs it; here it is imported once for all of them
_OURS = ("pyrula_runtime.worker", "pyrula_runtime.engine.watchdog", "pyrula_runtime.options")


def main(fd: int) -> NoReturn:
    """Be the template of the supervisor at the other end of this descriptor."""
    gc.disable()
    uplink = Uplink.from_fd(fd)
    try:
        start = uplink.read_start()
    except (EOFError, TimeoutError, WireError) as error:
        sys.exit(f"pyrula template: this command is for supervisors, and none has told what to do: {error}")
    hygiene.clean_spawned(start, os.environ)
    setproctitle(f"pyrula-template {start.supervisor}")
    configure_logging("json" if start.log_format == "json" else "text", start.log_level)
    uplink.say(Hello(incarnation=start.incarnation, pid=os.getpid()))
    quit_at_once(_served(start, uplink))


def _served(start: Start, uplink: Uplink) -> int:
    try:
        directory = runtime_dir(os.environ)
        stack_file = stacks.offer(directory, start.incarnation)
        _load(start)
    except ConfigurationError as error:
        message = CannotStart(
            incarnation=start.incarnation,
            reason=cut(str(error)),
            traceback=cut(app.story(error)),
            exit_code=CONFIGURATION,
        )
        uplink.say(message)
        return CONFIGURATION
    gc.collect()
    own_fds = {0, 1, 2, uplink.fileno()} | ({stack_file.fileno()} if stack_file else set())
    if found := hazards(own_fds):
        reason = f"after its import the app cannot be forked safely: {'; '.join(found)}"
        uplink.say(CannotStart(incarnation=start.incarnation, reason=cut(reason), unsafe_template=True))
        return CONFIGURATION
    gc.freeze()
    uplink.say(Ready(incarnation=start.incarnation))
    Forking(uplink, lambda: _forget(stack_file)).serve()
    stacks.forget(stacks.stack_path(directory, start.incarnation))
    return CLEAN


def _load(start: Start) -> None:
    """Everything that children share: our own modules, the app, whatever it warms up. Raises ConfigurationError."""
    for module in _OURS:
        importlib.import_module(module)
    open_store(start.store_url)  # this imports the driver, and connects to nothing
    app.programs(start.workflows)
    app.codec(start.options.get("codec"))
    if start.warmup:
        app.call_hook("warmup", start.warmup)


def _forget(stack_file: IO[bytes] | None) -> None:
    """In a child: the template's stack file is not its own. Until the child has one, the signal does nothing."""
    if stack_file is not None and kernel.STACK_SIGNAL is not None:
        faulthandler.unregister(kernel.STACK_SIGNAL)
        signal.signal(kernel.STACK_SIGNAL, signal.SIG_IGN)
        stack_file.close()


if __name__ == "__main__":
    main(int(sys.argv[1]))
