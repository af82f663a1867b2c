"""The stack of a thread that cannot be asked, because somebody holds the GIL: written by a signal, read from a file.

`faulthandler` writes from inside the signal, without the GIL. It looks only at the thread that the signal was sent to:
looking at all threads of a live process walks frames that are just being freed, and crashes one dump in some hundred.
The file is the process's own, in the runtime directory, found by incarnation; what stands behind the place where it
ended before is the answer.
"""

from __future__ import annotations

import contextlib
import faulthandler
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import quote

from pyrula_runtime import kernel
from pyrula_runtime.blackbox.layout import boxes_in


def stack_path(directory: Path, incarnation: str) -> Path:
    """The file of this incarnation."""
    return directory / "stacks" / f"{quote(incarnation, safe='')}.stack"


def write_on_signal(directory: Path, incarnation: str) -> IO[bytes] | None:
    """From now on the signal writes; keep what is returned as long as that shall be. None where there is no signal."""
    if kernel.STACK_SIGNAL is None:
        return None
    path = stack_path(directory, incarnation)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    file = path.open("wb", buffering=0)
    faulthandler.register(kernel.STACK_SIGNAL, file, all_threads=False)
    return file


def ask(path: Path, pid: int, thread_id: int) -> int | None:
    """Have the stack of one thread written; where in the file it will begin. None: nobody can be asked."""
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
    """What a dying process has written: `kind` is "signal" (a fatal one), "exit" (os._exit) or "timeout"."""

    kind: str
    stack: str
    line: str = ""


def crash_of(path: Path) -> CrashNote | None:
    """What the process of this file wrote as it died; None if it wrote nothing."""
    text = written(path, 0)
    begin = text.rfind("Fatal Python error: ")
    return CrashNote(kind="signal", stack=text[begin:]) if begin >= 0 else None
