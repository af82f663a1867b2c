"""Whose code is whose: people want to see their own lines of a stack, not ours and not Python's."""

from __future__ import annotations

import linecache
import re
import sysconfig
from pathlib import Path

from pyrula_runtime.core.frames import frames_of

_OURS = str(Path(__file__).resolve().parent)
_STDLIB = sysconfig.get_paths()["stdlib"]


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
    linecache.checkcache(found["file"])
    source = linecache.getline(found["file"], int(found["line"])).strip()
    return f"{line}: {source}" if source else line
