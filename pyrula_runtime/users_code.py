"""Whose code is whose: people want to see their own lines of a stack, not ours and not Python's."""

from __future__ import annotations

import linecache
import sysconfig
from pathlib import Path

from pyrula_runtime.core.frames import Frame, frames_of

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
    source = frame.source or linecache.getline(frame.file, frame.line).strip()
    return str(Frame(file=frame.file, line=frame.line, function=frame.function, source=source))
