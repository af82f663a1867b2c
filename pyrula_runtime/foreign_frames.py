"""Where a thread of another process is, read from that process's memory: without its help, and without touching it.

A thread that holds the GIL cannot say where it is. A signal can make it, but the handler runs in the midst of whatever
the thread does, and if it is just making a frame the process may die of the question. Of being read nothing dies,
nothing wakes, and a stopped process is read as well.

Reading needs two things of the process that is read. It tells where its main thread's state lies, and it does so only
if it could read itself and found what `sys._getframe` says: a build whose structures lie differently (for debugging,
without GIL, of a version to come) tells nothing and is not read. And the kernel must allow it, as it does a debugger:
the same user, and where Yama restricts that, an ancestor. `/proc/<pid>/mem` needs no system call that the filter of a
service takes away.

A process goes on while it is read, so what is read may be torn. Every step is checked: what is no code object, or
cannot be read, makes the whole look void, and it is repeated. A thread that rests looks the same twice; one that does
not gets the last look that was whole, each of whose frames it really had at about that time.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import struct
import sys
import threading
import types
from collections.abc import Iterator
from dataclasses import dataclass

from pyrula_runtime.core.frames import MOST_NAME, Frame
from pyrula_runtime.cpython_layout import (
    BEFORE,
    BY_C,
    BY_GENERATOR,
    BYTES,
    INSTRUCTION,
    LAYOUTS,
    NEXT,
    SIZE,
    TEXT_STATE,
    TYPE,
    Layout,
)

_LOOKS = 8
_MOST_FRAMES = 100  # the innermost, as many as `faulthandler` shows
_MOST_STEPS = 1_000  # from a frame to the one that called it, those that are not shown among them
_MOST_THREADS = 1_000  # that began before or after the one that is known
_MOST_BYTES = 1 << 24  # of one function's instructions, of its table of lines, of a name
_NUMBER = struct.Struct("=Q")
_INT = struct.Struct("=i")
_LINELESS = (lambda: None).__code__
_ENCODINGS = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}  # by the bytes of a character

# a frame, and how many bytes after the beginning of its code the instruction stands that it has come to
_Call = tuple[Frame, int]


class _TornError(Exception):
    """What was read is not what it should be: the process has gone on meanwhile, or is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """What a process tells about itself so that others can read it; as text, one line."""

    version: tuple[int, int]
    thread_state: int  # the address of one thread's state, which must not end before the process does
    code_type: int  # the address of the type of code objects

    def __str__(self) -> str:
        major, minor = self.version
        return f"readable {major}.{minor} 0x{self.thread_state:x} 0x{self.code_type:x}"

    @classmethod
    def parsed(cls, text: str) -> Whereabouts | None:
        """The first such line of a text."""
        if (found := _TOLD.search(text)) is None:
            return None
        major, minor, state, code = found.groups()
        return cls(version=(int(major), int(minor)), thread_state=int(state, 16), code_type=int(code, 16))


_TOLD = re.compile(r"^readable (\d+)\.(\d+) 0x([0-9a-f]+) 0x([0-9a-f]+)$", re.MULTILINE)


def own_whereabouts() -> Whereabouts | None:
    """What to tell of this process, by its main thread; None if it cannot be read reliably.

    The look at itself proves what it needs: the whole way from a thread's id to names and lines. It meets no frame that
    has not begun and no text beyond ASCII, so it proves nothing of `owner`, `traceable` and `other_text`.
    """
    version = sys.version_info[:2]
    if version not in LAYOUTS or sys.implementation.name != "cpython" or sys.byteorder != "little":
        return None
    state = ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyThreadState_Get", ctypes.pythonapi))()
    where = Whereabouts(version=version, thread_state=int(state), code_type=id(types.CodeType))
    try:
        with _memory_of(os.getpid()) as memory:
            reading = _Reading(memory, where)
            found = reading.calls(reading.state_of(threading.get_native_id()))
    except (OSError, _TornError):
        return None
    # Only the frames around this one: it goes on, and those inside it have ended.
    around = next((at for at, (frame, _) in enumerate(found, 1) if frame.function == own_whereabouts.__name__), 0)
    outer = found[around:]
    return where if around and outer and outer == _calls_around(len(outer)) else None


def _calls_around(most: int) -> list[_Call]:
    """What Python itself says of the calls around the caller's, innermost first."""
    calls: list[_Call] = []
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None and len(calls) < most:
        code = frame.f_code
        known = Frame(file=code.co_filename, line=frame.f_lineno, function=code.co_name)
        calls.append((known, frame.f_lasti))
        frame = frame.f_back
    return calls


def frames_of_thread(pid: int, thread_id: int, where: Whereabouts) -> list[Frame]:
    """Where a thread of a process is, by its kernel's id; innermost first, without sources.

    Empty if that cannot be read: the process or thread is gone, the kernel does not allow it, or it is never still.
    The kernel may have to wait for the lock of the process's memory map, so ask on a thread that may hang.
    """
    layout = LAYOUTS.get(where.version)
    last: list[Frame] = []
    if layout is None:
        return last
    with contextlib.suppress(OSError), _memory_of(pid) as memory:
        for _ in range(_LOOKS):
            reading = _Reading(memory, where)
            try:
                frames = [frame for frame, _ in reading.calls(reading.state_of(thread_id))]
            except _TornError:
                continue
            if frames == last:
                break
            last = frames
    return last


@contextlib.contextmanager
def _memory_of(pid: int) -> Iterator[_Memory]:
    """A process's memory; raises OSError where there is none to be had."""
    file = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield _Memory(file)
    finally:
        os.close(file)


class _Memory:
    """Bytes, numbers and texts by their address. Whatever is not there raises _TornError."""

    def __init__(self, file: int) -> None:
        self._file = file

    def bytes_at(self, address: int, size: int) -> bytes:
        try:
            found = os.pread(self._file, size, address)
        except (OSError, OverflowError):
            raise _TornError from None
        if len(found) != size:
            raise _TornError
        return found

    def number(self, address: int) -> int:
        """A pointer, or a number without sign of its size."""
        return int(_NUMBER.unpack(self.bytes_at(address, _NUMBER.size))[0])

    def integer(self, address: int) -> int:
        """What C calls an int."""
        return int(_INT.unpack(self.bytes_at(address, _INT.size))[0])

    def byte_string(self, address: int) -> bytes:
        """What a `bytes` object holds."""
        return self.bytes_at(address + BYTES, self._size_of(address, _MOST_BYTES))

    def text(self, address: int, layout: Layout) -> str:
        """What a `str` holds."""
        size = min(self._size_of(address, _MOST_BYTES), MOST_NAME + 1)
        state = self.bytes_at(address + TEXT_STATE, 1)[0]
        width, is_ascii = state >> 2 & 7, state >> 6 & 1
        if width not in _ENCODINGS:
            raise _TornError
        begin = address + (layout.ascii_text if is_ascii else layout.other_text)
        return self.bytes_at(begin, size * width).decode(_ENCODINGS[width], errors="replace")

    def _size_of(self, address: int, most: int) -> int:
        size = self.number(address + SIZE)
        if size > most:
            raise _TornError
        return size


class _Reading:
    """One look at one process."""

    def __init__(self, memory: _Memory, where: Whereabouts) -> None:
        self._memory = memory
        self._where = where
        self._layout = LAYOUTS[where.version]

    def state_of(self, thread_id: int) -> int:
        """The address of a thread's state."""
        for towards in (NEXT, BEFORE):
            state = self._where.thread_state
            for _ in range(_MOST_THREADS):
                if not state:
                    break
                if self._memory.number(state + self._layout.native_thread_id) == thread_id:
                    return state
                state = self._memory.number(state + towards)
        raise _TornError

    def calls(self, state: int) -> list[_Call]:
        """Where the thread with this state is, innermost first."""
        layout, calls, known = self._layout, list[_Call](), dict[tuple[int, int], _Call]()
        address = state
        for offset in layout.to_frame:
            address = self._memory.number(address + offset)
        for _ in range(_MOST_STEPS):
            if not address or len(calls) == _MOST_FRAMES:
                return calls
            frame = self._memory.bytes_at(address, layout.frame)
            code, address, instruction = (
                _NUMBER.unpack_from(frame, offset)[0] for offset in (layout.code, layout.previous, layout.instruction)
            )
            owner, at = frame[layout.owner], instruction - code - layout.instructions
            if owner != BY_C and self._has_begun(code, at, owner):
                # a recursion is at the same few places all along, and each of them may have a table of megabytes
                if (code, at) not in known:
                    known[code, at] = self._call(code, at)
                calls.append(known[code, at])
        raise _TornError

    def _has_begun(self, code: int, at: int, owner: int) -> bool:
        """Whether Python itself would show it (`_PyFrame_IsIncomplete`); frames of its own helpers never begin."""
        memory = self._memory
        if memory.number(code + TYPE) != self._where.code_type or owner > BY_C:
            raise _TornError
        if owner != BY_GENERATOR and at < memory.integer(code + self._layout.traceable) * INSTRUCTION:
            return False
        if at >= memory.number(code + SIZE) * INSTRUCTION:
            raise _TornError  # what was a frame is something else by now, like that of a call from C that has ended
        return True

    def _call(self, code: int, at: int) -> _Call:
        memory, layout = self._memory, self._layout
        lines, first = memory.byte_string(memory.number(code + layout.lines)), memory.integer(code + layout.first_line)
        frame = Frame(
            file=memory.text(memory.number(code + layout.filename), layout),
            line=_line(lines, first, at),
            function=memory.text(memory.number(code + layout.name), layout),
        )
        return frame, at


def _line(lines: bytes, first: int, at: int) -> int:
    """The line of the instruction that begins `at` bytes after a code's beginning, by its table of lines."""
    if at < 0:
        return first  # it has not begun
    if at > _MOST_BYTES:
        raise _TornError
    # Python decodes its own table, and in one call: entry by entry, that of a long function would take seconds.
    try:
        code = _LINELESS.replace(co_linetable=lines, co_firstlineno=first)
    except ValueError:  # no code begins there
        raise _TornError from None
    kind = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_int)
    found = int(kind(("PyCode_Addr2Line", ctypes.pythonapi))(code, at))
    return found if found >= 0 else first
