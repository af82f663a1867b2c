"""The way out of a process, in bounded time, whatever its threads do.

A process is left by `os._exit`: user code may have a thread that never ends, and interpreters that shut down around
one hang or crash. What was registered with `atexit` is run before, for as long as that takes less than a limit.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from typing import NoReturn

# kept, because user code that calls it is written down (see stacks), and this is not the user's
exit_at_once = os._exit
# how long functions registered with `atexit` may take (seconds)
_LAST_WISHES_S = 2.0


def leave(code: int) -> NoReturn:
    """End this process in bounded time, whatever its threads do."""
    limit = threading.Timer(_LAST_WISHES_S, exit_at_once, (code,))
    limit.daemon = True
    limit.start()
    atexit._run_exitfuncs()  # the last of them is that of logging, which flushes
    quit_at_once(code)


def quit_at_once(code: int) -> NoReturn:
    """End this process now; only what was written already goes out."""
    for stream in (sys.stdout, sys.stderr):
        # a reader that went away, or a write under way that a signal has interrupted
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            stream.flush()
    exit_at_once(code)
