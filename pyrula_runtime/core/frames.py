"""A stack as text, taken apart: of `traceback` (innermost last) or of `faulthandler` (innermost first, no source).

Evidence keeps a stack as it was written by whoever could still write. People want to see their own frames of it, and a
hint needs to know what they called.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

# traceback writes `line 7, in polite` and the source below it, faulthandler `line 7 in polite`
_FRAME = re.compile(r'^ *File "(?P<file>.*)", line (?P<line>\d+)(?P<comma>,?) in (?P<function>.*)$')
# marks below the source that show a part of it
_MARKS = re.compile(r"^[\s~^]*$")
# how faulthandler begins the stack of the next thread
_THREAD = re.compile(r"^(Current t|T)hread 0x")


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One call that was under way. `source` is empty if nobody wrote it down."""

    file: str
    line: int
    function: str
    source: str = ""

    @property
    def place(self) -> str:
        """`file:line`."""
        return f"{self.file}:{self.line}"

    def __str__(self) -> str:
        source = f": {self.source}" if self.source else ""
        return f"{self.place} in {self.function}{source}"


def frames_of(stack: str) -> tuple[Frame, ...]:
    """The frames of the first thread in a stack's text, outermost first."""
    frames: list[Frame] = []
    outermost_first = False
    lines = stack.splitlines()
    for at, text in enumerate(lines):
        if frames and _THREAD.match(text):
            break
        if (found := _FRAME.match(text)) is None:
            continue
        outermost_first = bool(found["comma"])
        source = _source(lines[at + 1]) if outermost_first and at + 1 < len(lines) else ""
        frames.append(Frame(file=found["file"], line=int(found["line"]), function=found["function"], source=source))
    return tuple(frames if outermost_first else reversed(frames))


def inside(frames: Sequence[Frame], line: str) -> Sequence[Frame]:
    """What was called, directly or not, from the place that a line begins with; the innermost frame if that is none."""
    for at in reversed(range(len(frames))):
        if line.startswith(f"{frames[at].place} "):
            return frames[at + 1 :]
    return frames[-1:]


def _source(text: str) -> str:
    return "" if _FRAME.match(text) or _MARKS.match(text) else text.strip()
