"""A stack as text, put together and taken apart.

As `traceback` writes it the innermost frame is last; as `faulthandler` does it is first, and there is no source.
Evidence keeps a stack as it was written by whoever could still write. People want to see their own frames of it, and a
hint needs to know what they called.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

# traceback writes `line 7, in polite` and the source below it, faulthandler `line 7 in polite`
_FRAME = re.compile(r'^ *File "(?P<file>.*)", line (?P<line>\d+)(?P<comma>,?) in (?P<function>.*)$')
# marks below the source that show a part of it
_MARKS = re.compile(r"^[\s~^]*$")
# how a stack's title begins that is of a run in flight, whatever it does
_OF_RUN = re.compile(r"^run (?P<run_id>\S+) ")


# characters of a name that are kept, as many as `faulthandler` keeps
MOST_NAME = 500
# so many equal frames of a recursion are written, as `traceback` does
_ALIKE = 3


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


def stacks_of(text: str) -> tuple[str, ...]:
    """The stacks in a text, each with the title above it: what begins a line after the frames of the one before."""
    parts, has_frames = [""], False
    for line in text.splitlines(keepends=True):
        if has_frames and line.strip() and not line[0].isspace():
            parts.append("")
            has_frames = False
        has_frames = has_frames or _FRAME.match(line) is not None
        parts[-1] += line
    return tuple(parts)


def run_of(stack: str) -> str:
    """The run that a stack is of, if its title says so."""
    found = _OF_RUN.match(stack)
    return found["run_id"] if found else ""


def frames_of(text: str) -> tuple[Frame, ...]:
    """The frames of the first stack in a text, outermost first."""
    frames: list[Frame] = []
    outermost_first = False
    lines = stacks_of(text)[0].splitlines()
    for at, line in enumerate(lines):
        if (found := _FRAME.match(line)) is None:
            continue
        outermost_first = bool(found["comma"])
        source = _source(lines[at + 1]) if outermost_first and at + 1 < len(lines) else ""
        frames.append(Frame(file=found["file"], line=int(found["line"]), function=found["function"], source=source))
    return tuple(frames if outermost_first else reversed(frames))


def as_text(frames: Iterable[Frame]) -> str:
    """As `traceback` writes them, outermost first, each with its source if that is known."""
    lines: list[str] = []
    for frame, alike in groupby(frames):
        number = sum(1 for _ in alike)
        written = f'  File "{frame.file}", line {frame.line}, in {frame.function}\n'
        lines += [written + (f"    {frame.source}\n" if frame.source else "")] * min(number, _ALIKE)
        if more := max(0, number - _ALIKE):
            lines.append(f"  [Previous line repeated {more} more time{'s' if more > 1 else ''}]\n")
    return "".join(lines)


def plain(name: str) -> str:
    """A name that can be no more than one: it ends no line or quotation, does nothing to a terminal, is not long."""
    return printable(name if len(name) <= MOST_NAME else f"{name[:MOST_NAME]}...").replace('"', r"\x22")


def printable(text: str) -> str:
    """With escapes in place of whatever is not to be seen."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def inside(frames: Sequence[Frame], line: str) -> Sequence[Frame]:
    """What was called, directly or not, from the place that a line begins with; the innermost frame if that is none."""
    for at in reversed(range(len(frames))):
        if line.startswith(f"{frames[at].place} "):
            return frames[at + 1 :]
    return frames[-1:]


def _source(text: str) -> str:
    return "" if _FRAME.match(text) or _MARKS.match(text) else text.strip()
