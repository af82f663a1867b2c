"""A fork that user code made and that came back to us: it must not live on as a second worker.

Code in a step may fork; multiprocessing and subprocess do, and see to it that the child never leaves the call. The
child of a bare `os.fork` may return from the step, also by `sys.exit`, which is an exception. It then has copies of all
that is queued here and shares our sockets, our lane's wake-ups and our black box: it would perform steps a second time,
take what is meant for us, keep the health port, and wait for ever. So it ends where it leaves user code, before it has
touched anything of ours.
"""

from __future__ import annotations

import contextlib
import os

_STATUS = 1
_TOLD = (
    b"pyrula: a process that user code forked came back from it and was ended; end such a process with os._exit(), or "
    b"use multiprocessing or subprocess\n"
)


class _Here:
    """This process. Asking the kernel for the pid would cost a fifth of a microsecond with every step of a loop."""

    pid = os.getpid()


here = _Here()
os.register_at_fork(after_in_child=lambda: setattr(here, "pid", os.getpid()))


def end_if_forked(pid: int) -> None:
    """End this process if it is not the one that entered user code."""
    if here.pid != pid:
        with contextlib.suppress(OSError):  # nobody listens there any more
            os.write(2, _TOLD)
        os._exit(_STATUS)
