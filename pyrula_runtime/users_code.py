"""Whose code is whose: people want to see their own lines of a stack, not ours and not Python's."""

from __future__ import annotations

import linecache
import os
import re
import stat
import sysconfig
from pathlib import Path
from types import CodeType, FrameType

from pyrula_runtime.core.frames import Frame, frames_of, plain, printable

_OURS = str(Path(__file__).resolve().parent)
_STDLIB = sysconfig.get_paths()["stdlib"]
_MOST_SOURCE = 10 << 20  # bytes of a file that are read for a line of it
_MOST_FRAMES = 1_000


def is_users(filename: str) -> bool:
    """Whether a frame's file is neither ours nor Python's own: the user's, or of a package they chose."""
    if filename.startswith((_OURS, "<")):
        return False
    return "site-packages" in filename or not filename.startswith(_STDLIB)


def users_line(stack: str) -> str:
    """`file:line in function: source` of the innermost frame of user code in a stack's text; empty: it has none.

    A stack that was written from outside carries no source; it is read from the file, which may be another by now.
    """
    frame = next((each for each in reversed(frames_of(stack)) if is_users(each.file)), None)
    if frame is None:
        return ""
    return with_source(str(frame))


_BARE = re.compile(r"^(?P<file>.+):(?P<line>\d+) in [^:]+$")


def with_source(line: str) -> str:
    """A line of a stack with its source, if that is missing and the file is there."""
    if (found := _BARE.match(line)) is None:
        return line
    source = source_of(found["file"], int(found["line"]))
    return f"{line}: {source}" if source else line


def source_of(file: str, number: int) -> str:
    """One line of a file of source; empty if there is none.

    Only a plain file is opened: code may say that it comes from wherever it likes, and who opens a pipe waits.
    """
    try:
        state = os.stat(file)
        is_there = stat.S_ISREG(state.st_mode) and 0 < state.st_size <= _MOST_SOURCE
    except (OSError, ValueError):
        is_there = file in linecache.cache  # in an archive, say
    if not is_there:
        return ""
    linecache.checkcache(file)
    return printable(linecache.getline(file, number).strip())


def frames_around(frame: FrameType | None) -> list[Frame]:
    """The calls that are under way in a thread of this process, outermost first; of very many the innermost."""
    frames: list[Frame] = []
    while frame is not None and len(frames) < _MOST_FRAMES:
        code, number = frame.f_code, frame.f_lineno or 0
        linecache.lazycache(code.co_filename, frame.f_globals)  # where its source is, if it is in no file
        frames.append(frame_at(code, number))
        frame = frame.f_back
    return frames[::-1]


def frame_at(code: CodeType, number: int) -> Frame:
    """A call of this code that has come to this line."""
    source = source_of(code.co_filename, number)
    return Frame(file=plain(code.co_filename), line=number, function=plain(code.co_name), source=source)
