"""The stack of a thread that cannot be asked, since somebody holds the GIL, or it dies.

Each process has a file of its own in the runtime directory, found by incarnation. It begins with what others need to
read the process's memory, and that is how they get the stack of a thread (see foreign_frames). Where the kernel does
not allow it, or this build of Python cannot be read, a signal makes the thread write its stack to the file; what stands
behind the place where the file ended before is the answer. `faulthandler` does that from inside the signal, without the
GIL, and looks only at the thread that the signal was sent to: with all threads of a live process it walks frames that
are just being freed, and crashes one dump in some hundred. Of the own thread alone it is one in 50,000, and that only
of a thread that is just making a call; one that is stuck is not.

**Last words.** The same file takes what a worker writes as it dies, and burial reads it as evidence: the stack at a
fatal signal (SIGSEGV and its kin; the crashing thread's alone), the stack of whoever calls `os._exit`, and in a worker
that nobody watches from outside the stacks of all threads when a timer runs out that its watchdog has wound up in vain.
The last of these in the file counts. What our own way out does is no last word, nor is what a forked child does: it
has the file, but no business there, so in a child of a fork nothing is written any more. A C library that forks by
itself, and whose child crashes, escapes that.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, NoReturn
from urllib.parse import quote

from pyrula_runtime import kernel, leaving
from pyrula_runtime.blackbox.layout import boxes_in
from pyrula_runtime.core.frames import plain
from pyrula_runtime.foreign_frames import Whereabouts, frames_of_thread, own_whereabouts
from pyrula_runtime.users_code import users_line

# how often the timer of a worker that nobody watches is wound up: each time costs a thread of faulthandler's (seconds)
_WIND_UP_S = 1.0
_SIGNALS = {
    "Segmentation fault": "SIGSEGV",
    "Aborted": "SIGABRT",
    "Bus error": "SIGBUS",
    "Floating point exception": "SIGFPE",
    "Floating-point exception": "SIGFPE",  # from Python 3.13 on
    "Illegal instruction": "SIGILL",
}
_TITLE = "Stack (most recent call first):"  # of a stack in a file, as `faulthandler` writes it
_MOST_TOLD = 200  # bytes of what a process tells first
_MOST = 16_000  # characters of a stack that are kept


def stack_path(directory: Path, incarnation: str) -> Path:
    """The file of this incarnation."""
    return directory / "stacks" / f"{quote(incarnation, safe='')}.stack"


def offer(directory: Path, incarnation: str) -> IO[bytes] | None:
    """From now on others get the stacks of this process; call it on the main thread.

    Keep what is returned as long as that shall be. None where there is no way.
    """
    if kernel.STACK_SIGNAL is None:
        return None
    file = _opened(directory, incarnation)
    if (where := own_whereabouts()) is not None:
        file.write(f"{where}\n".encode())
    faulthandler.register(kernel.STACK_SIGNAL, file, all_threads=False)
    return file


def _opened(directory: Path, incarnation: str) -> IO[bytes]:
    path = stack_path(directory, incarnation)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    return path.open("wb", buffering=0)


def write_at_death(directory: Path, incarnation: str) -> IO[bytes]:
    """From now on, too, fatal signals write, and whoever calls `os._exit` in this process. Keep what is returned."""
    file = offer(directory, incarnation) or _opened(directory, incarnation)
    faulthandler.enable(file, all_threads=False)
    os._exit = _recording_exit(file)  # type: ignore[assignment]
    os.register_at_fork(after_in_child=_fall_silent)
    return file


def _recording_exit(file: IO[bytes]) -> Callable[[int], NoReturn]:
    really, pid = leaving.exit_at_once, os.getpid()

    def recorded_exit(status: int) -> NoReturn:
        if os.getpid() == pid:
            with contextlib.suppress(OSError, ValueError):  # a full disk, or closed by user code: then without
                file.write(b"exit(%d)\n" % status)
                faulthandler.dump_traceback(file, all_threads=False)
        really(status)

    return recorded_exit


def _fall_silent() -> None:
    faulthandler.disable()
    if kernel.STACK_SIGNAL is not None:
        faulthandler.unregister(kernel.STACK_SIGNAL)


class LastWord:
    """A timer that ends the process, with all stacks in its file, unless somebody who has the GIL winds it up in time.

    For a worker that nobody watches from outside. A process that was stopped for longer than that ends, too.
    """

    def __init__(self, file: IO[bytes], limit_s: float) -> None:
        self._file = file
        self._limit_s = limit_s
        self._wound_up_s = 0.0

    def wind_up(self, thread: int) -> None:
        """From now on the time runs anew. `thread` is the Python identity of the one whose stack comes first."""
        now_s = time.monotonic()
        if not self._wound_up_s:
            self._file.write(b"lane 0x%016x\n" % thread)
        if not self._wound_up_s or now_s - self._wound_up_s >= min(_WIND_UP_S, self._limit_s / 10):
            self._wound_up_s = now_s
            faulthandler.dump_traceback_later(self._limit_s, exit=True, file=self._file)

    def stop(self) -> None:
        """The process ends by itself."""
        faulthandler.cancel_dump_traceback_later()


def read(path: Path, pid: int, thread_id: int) -> str:
    """The stack of one thread as it is now, innermost first, as text; empty if it cannot be read. It may hang."""
    where = Whereabouts.parsed(_beginning(path))
    frames = frames_of_thread(pid, thread_id, where) if where is not None else []
    lines = [f'  File "{plain(frame.file)}", line {frame.line} in {plain(frame.function)}' for frame in frames]
    return "\n".join([_TITLE, *lines, ""]) if lines else ""


def ask(path: Path, pid: int, thread_id: int) -> int | None:
    """Have one thread write its stack; where in the file it will begin. None: nobody can be asked."""
    try:
        begin = path.stat().st_size
    except OSError:
        return None
    number = kernel.STACK_SIGNAL
    return begin if number is not None and kernel.signal_thread(pid, thread_id, number) else None


def written(path: Path, begin: int) -> str:
    """What has been written since."""
    try:
        with path.open("rb") as file:
            file.seek(begin)
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _beginning(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_TOLD).decode(errors="replace")
    except OSError:
        return ""


def forget(path: Path) -> None:
    """The process is no more. Whoever cannot remove its file (a directory made read-only, say) goes on all the same."""
    with contextlib.suppress(OSError):
        path.unlink()


def sweep(directory: Path) -> None:
    """Remove the files of processes that have no black box any more."""
    for path in (directory / "stacks").glob("*.stack"):
        if not boxes_in(directory).joinpath(path.stem).with_suffix(".box").exists():
            forget(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashNote:
    """What a dying process has written, and the innermost line of the user's code in it (empty: there is none)."""

    kind: Literal["signal", "exit", "timeout"]
    what: str = ""  # the signal's name, the exit code, or how long the timer ran
    stack: str
    line: str = ""


_LAST = re.compile(
    r"^(?:Fatal Python error: (?P<signal>[^\n]+)|exit\((?P<exit>-?\d+)\)|Timeout \((?P<timeout>[^\n]+)\)!)$",
    re.MULTILINE,
)
_LANE = re.compile(r"^lane (0x[0-9a-f]+)$", re.MULTILINE)
_THREAD = re.compile(r"^(?=(?:Current t|T)hread 0x)", re.MULTILINE)


def crash_of(path: Path) -> CrashNote | None:
    """What the process of this file wrote as it died; None if it wrote nothing."""
    text = written(path, 0)
    found = list(_LAST.finditer(text))
    if not found:
        return None
    last = found[-1]
    # what follows the stack are the names of extension modules
    stack = text[last.end() :].partition("\nExtension modules:")[0].strip()[:_MOST]
    if (signal := last["signal"]) is not None:
        return CrashNote(kind="signal", what=_SIGNALS.get(signal, signal), stack=stack, line=users_line(stack))
    if (code := last["exit"]) is not None:
        return CrashNote(kind="exit", what=code, stack=stack, line=users_line(stack))
    stack = _lane_first(text, stack)
    return CrashNote(kind="timeout", what=last["timeout"], stack=stack, line=users_line(stack))


def _lane_first(text: str, stack: str) -> str:
    """The stacks of all threads, that of the lane before all others."""
    lane = _LANE.search(text)
    threads = _THREAD.split(stack)
    return "".join(sorted(threads, key=lambda each: not (lane and lane[1] in each.partition("\n")[0])))
