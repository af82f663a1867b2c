"""How the structures lie in memory by which a thread's frames are found: numbers alone, for each version of CPython.

Whoever adds a version takes them from its headers, by `offsetof`. No number has to be believed: a process tells others
how to read it only after it has read itself (see foreign_frames).
"""

from __future__ import annotations

from dataclasses import dataclass

POINTER = 8  # bytes
INSTRUCTION = 2  # bytes
# the same in all of them: of any object, of a sequence, of `bytes`, of a text, and of a thread's state
TYPE, SIZE, BYTES, TEXT_STATE, BEFORE, NEXT = 8, 16, 32, 32, 0, 8
# who owns a frame: a generator, or a call from C, for which it only stands
BY_GENERATOR, BY_C = 1, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where the fields lie, in bytes from the beginning of each, in a 64-bit release build of one version of CPython.

    Source: its headers cpython/pystate.h, cpython/code.h, cpython/unicodeobject.h and internal/pycore_frame.h.
    """

    # of a thread's state
    native_thread_id: int
    to_frame: tuple[int, ...]  # the pointers to follow, one after the other, to the thread's innermost frame
    # of a frame
    code: int
    previous: int
    instruction: int = 56
    owner: int
    # of a code object
    first_line: int = 68
    filename: int = 112
    name: int = 120
    lines: int = 136
    traceable: int
    instructions: int
    # of a text: where its characters begin if all of them are ASCII, and if not
    ascii_text: int = 40
    other_text: int = 56

    @property
    def frame(self) -> int:
        """How much of a frame is read."""
        return max(self.code, self.previous, self.instruction, self.owner) + POINTER


LAYOUTS = {
    (3, 11): Layout(
        native_thread_id=160,
        to_frame=(56, 8),
        code=32,
        previous=48,
        owner=69,
        first_line=72,
        traceable=168,
        instructions=184,
        ascii_text=48,
        other_text=72,
    ),
    (3, 12): Layout(
        native_thread_id=144, to_frame=(56, 0), code=0, previous=8, owner=70, traceable=176, instructions=192
    ),
    (3, 13): Layout(
        native_thread_id=160, to_frame=(72,), code=0, previous=8, owner=70, traceable=184, instructions=200
    ),
}
