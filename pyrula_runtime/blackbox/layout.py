"""Layout of a black box: what is where in the file, and what a record means.

A record is a seal (CRC-32 of the body, 4 bytes) and a body of fixed size, little endian. A page of zeros fits no seal,
so a record that was never written reads as unknown, too. Magic and version stand before the head's seal and stay there
in every version to come; any other change of the layout raises the version, and readers leave other versions alone.

Two records are special. A *word* is one 64-bit number, milliseconds of the monotonic clock, or the kernel's id of a
thread; 0: none. Words and the lane's span stand side by side, so that whoever looks at a living worker takes all of
them at once (see peephole).

A *span*, who executes on the lane or on a thread, is written millions of times an hour, mostly with the same names as
before. So it is a block of names, and before it three numbers of 64 bits, of which an entry writes two and a leave one:

    stamp   the monotonic nanosecond of the entry, which is its number as well; all ones: certainly nobody
    check   stamp XOR thread XOR the digest of the names
    thread  the kernel's id of the thread; 0 on the lane, whose thread is a word

It is whole if check, stamp and thread give the digest of the names that stand there. So it does not matter in which
order a reader gets to see the writes: old and new names do not go with the stamp and the check of the other, nor does
an old check with a new stamp. Only stamp and check torn inside at the same byte would, and aligned numbers of 64 bits
are not torn. The stamp is written last at an entry and alone at a leave; until it is, nobody executes there.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from urllib.parse import quote
from zlib import crc32

MAGIC = b"PYRULABX"
VERSION = 3
RUN_SLOTS = 1024
THREAD_SLOTS = 256
NO_SLOT = -1  # what a full table gives; giving it back changes nothing

SEAL = struct.Struct("<I")
PREFIX = struct.Struct("<8sI")  # magic, version
# boot, store, incarnation, worker id, role, pid, start ticks, created wall ms, pid of the parent
HEAD = struct.Struct("<16s16s48s64s16sQQQQ")
PHASE = struct.Struct("<B200s")  # phase, exit reason
WORD = struct.Struct("<Q")
SPAN = struct.Struct("=QQQ")  # stamp, check, thread
PLACE = struct.Struct("<128s64s96s224s")  # run id, workflow, step, op id
FULL = struct.Struct("<??")  # whether the tables of threads and of runs ever overflowed
HELD = struct.Struct("<Q128s")  # fence, run id (empty: the slot is free)

WORD_SIZE = SEAL.size + WORD.size
HEAD_AT = PREFIX.size
PHASE_AT = HEAD_AT + SEAL.size + HEAD.size
WORDS_AT = PHASE_AT + SEAL.size + PHASE.size
CONTROL_BEAT_AT = WORDS_AT
LANE_BEAT_AT = CONTROL_BEAT_AT + WORD_SIZE
STORE_LOCK_AT = LANE_BEAT_AT + WORD_SIZE
LANE_THREAD_AT = STORE_LOCK_AT + WORD_SIZE
WATCH_BEAT_AT = LANE_THREAD_AT + WORD_SIZE
WATCH_THREAD_AT = WATCH_BEAT_AT + WORD_SIZE
GC_SINCE_AT = WATCH_THREAD_AT + WORD_SIZE
GC_TOTAL_AT = GC_SINCE_AT + WORD_SIZE
WORDS = (GC_TOTAL_AT - WORDS_AT) // WORD_SIZE + 1
ALIGNMENT = 8  # of numbers that are written in one piece
LANE_AT = -(-(GC_TOTAL_AT + WORD_SIZE) // ALIGNMENT) * ALIGNMENT
SPAN_SIZE = SPAN.size + PLACE.size
FULL_AT = LANE_AT + SPAN_SIZE
THREADS_AT = -(-(FULL_AT + SEAL.size + FULL.size) // ALIGNMENT) * ALIGNMENT
RUNS_AT = THREADS_AT + THREAD_SLOTS * SPAN_SIZE
HELD_SIZE = SEAL.size + HELD.size
SIZE = -(-(RUNS_AT + RUN_SLOTS * HELD_SIZE) // ALIGNMENT) * ALIGNMENT
NOBODYS_STAMP = 2**64 - 1


class Phase(Enum):
    """How far a worker is in its life; the values are what is stored."""

    starting = 1
    ready = 2
    draining = 3
    stopping = 4
    stopped_clean = 5


class Nobody(Enum):
    """The one value that says: it is certain that no turn executes there."""

    NOBODY = "nobody"


NOBODY = Nobody.NOBODY


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where in which run code is about to execute; make it once per step, enter it as often as the loop does."""

    run_id: str
    workflow: str
    step: str = ""  # empty: between steps, in the body of the workflow
    op_id: str = ""
    block: bytes = field(init=False, repr=False, compare=False)
    digest: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Pack the names, so that entering costs no encoding."""
        names = shortened(self.workflow, 64), shortened(self.step, 96), shortened(self.op_id, 224)
        block = PLACE.pack(exact(self.run_id, 128), *names)
        object.__setattr__(self, "block", block)
        object.__setattr__(self, "digest", digest_of(block))


@dataclass(frozen=True, slots=True, kw_only=True)
class Executing:
    """What a lane or thread executes: a place, since when, and the number of this entry, its monotonic nanosecond."""

    run_id: str
    workflow: str
    step: str
    op_id: str
    entries: int
    thread: int  # the kernel's id; 0: unknown

    @property
    def since_ms(self) -> int:
        """Since when."""
        return self.entries // 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A run in flight and the fence of its claim."""

    run_id: str
    fence: int


def digest_of(block: bytes) -> int:
    """What stands for the names of a place, in 64 bits."""
    return int.from_bytes(hashlib.blake2b(block, digest_size=8).digest(), "little")


def sealed(body: bytes) -> bytes:
    """The record that carries this body."""
    return SEAL.pack(crc32(body)) + body


NOBODY_THERE = SPAN.pack(NOBODYS_STAMP, 0, 0)
NOTHING_HELD = sealed(HELD.pack(0, b""))


def exact(text: str, size: int) -> bytes:
    """An identity as bytes; one that does not fit is refused, because half an identity is another one."""
    encoded = text.encode()
    if not 0 < len(encoded) <= size or b"\0" in encoded:
        raise ValueError(f"{text!r} must be 1 to {size} bytes long, without NUL, to be kept in a black box")
    return encoded


def shortened(text: str, size: int) -> bytes:
    """A name as bytes; the end of one that does not fit gives way to a digest, so that it stays different."""
    encoded = text.encode(errors="replace").replace(b"\0", b"?")
    if len(encoded) <= size:
        return encoded
    digest = hashlib.blake2b(encoded, digest_size=4).hexdigest().encode()
    return encoded[: size - 9].decode(errors="ignore").encode() + b"~" + digest


def text_of(padded: bytes) -> str:
    """The text of a field: it ends where its padding begins."""
    return padded.rstrip(b"\0").decode()


def store_digest(identity: str) -> bytes:
    """Which store, in 16 bytes."""
    return hashlib.blake2b(identity.encode(), digest_size=16).digest()


def boxes_in(directory: Path) -> Path:
    """Where the boxes are within a runtime directory."""
    return directory / "boxes"


def box_path(directory: Path, incarnation: str) -> Path:
    """The box of this incarnation; whatever it is called, the name stays one name in that folder."""
    return boxes_in(directory) / f"{quote(incarnation, safe='')}.box"
