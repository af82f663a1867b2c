"""The worker's side of its black box: make it, keep it up to date for next to nothing, give it up.

Each record has one writer at a time: beats and phase the control thread, the lane's span the lane, a slot of a table
whoever took it. A record is built aside and put in place by one C call that no other thread can interrupt, so while
one thread holds the GIL for ever, the records of all others are whole. `enter_lane` and `leave_lane` are on the path of
every step of the lane's loop: one checksum of two dozen bytes and two copies, no name encoded, no list, no lock. For
the same reason they are functions made for one box, with all they need at hand, and not methods.
"""

from __future__ import annotations

import itertools
import mmap
import os
import struct
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

from pyrula_runtime.blackbox import layout
from pyrula_runtime.blackbox.holding import born, released
from pyrula_runtime.blackbox.layout import LANE_AT, NO_SLOT, Phase, Place, sealed
from pyrula_runtime.core.errors import ConfigurationError
from pyrula_runtime.runtime_dir import boot_id

# Seal, span and place at once, so that a record is replaced by a single call.
_RECORD = struct.Struct(f"<I{layout.SPAN.format[1:]}{layout.PLACE.size}s")
_SPAN_RECORD = struct.Struct(f"<I{layout.SPAN.format[1:]}")


class BlackBox:
    """The box of this process. Never opened a second time: closing that descriptor would free its lock."""

    enter_lane: Callable[[Place, int], None]  # the lane executes this since then; said before the code gets control
    leave_lane: Callable[[], None]  # the lane executes no turn from now on

    def __init__(self, path: Path, image: bytes) -> None:
        self.path = path
        self._fd, self._map = born(path, image)
        self._pid = os.getpid()
        self._entries = itertools.count(1)
        self.enter_lane, self.leave_lane, self._set_lane_thread = _lane_writers(self._map, self._entries)
        self._free_runs = list(range(layout.RUN_SLOTS - 1, -1, -1))
        self._free_threads = list(range(layout.THREAD_SLOTS - 1, -1, -1))
        self._full = {"threads": False, "runs": False}

    @classmethod
    def create(
        cls,
        directory: Path,
        *,
        incarnation: str,
        worker_id: str,
        store_identity: str,
        now_ms: int,
        role: str = "plain",
    ) -> BlackBox:
        """Make and lock the box of a new incarnation, in phase `starting`, within this runtime directory.

        `role` says whose child it is: nobody's ("plain"), or as what a supervisor started it.
        """
        head = layout.HEAD.pack(
            uuid.UUID(boot_id()).bytes,
            layout.store_digest(store_identity),
            layout.exact(incarnation, 48),
            layout.shortened(worker_id, 64),
            layout.shortened(role, 16),
            os.getpid(),
            _start_ticks(),
            now_ms,
            os.getppid(),
        )
        path = layout.box_path(directory, incarnation)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return cls(path, _image(head))
        except OSError as error:
            raise ConfigurationError(
                [
                    f"black box {path} cannot be made ({error.strerror}); every worker needs a new incarnation, and a "
                    f"runtime directory with {layout.SIZE // 1024} KB free that it can write and lock"
                ]
            ) from error

    def set_phase(self, phase: Phase, reason: str = "") -> None:
        """Say how far this worker is, and why it goes."""
        self._put(layout.PHASE_AT, layout.PHASE.pack(phase.value, layout.shortened(reason, 200)))

    def beat_control(self, ms: int) -> None:
        """The control thread was here at this monotonic time."""
        self._put(layout.CONTROL_BEAT_AT, layout.WORD.pack(ms))

    def beat_lane(self, ms: int) -> None:
        """The lane's loop was here at this monotonic time."""
        self._put(layout.LANE_BEAT_AT, layout.WORD.pack(ms))

    def lock_tenure(self, ms: int) -> None:
        """This process has had the store's write lock since this monotonic time; 0: it has not."""
        self._put(layout.STORE_LOCK_AT, layout.WORD.pack(ms))

    def lane_thread(self, thread_id: int) -> None:
        """The kernel's id of the lane's thread; to be said before the lane enters anything."""
        self._put(layout.LANE_THREAD_AT, layout.WORD.pack(thread_id))
        self._set_lane_thread(thread_id)

    def watch_thread(self, thread_id: int) -> None:
        """The kernel's id of the watchdog's thread, which shows whether any thread here can have the GIL."""
        self._put(layout.WATCH_THREAD_AT, layout.WORD.pack(thread_id))

    def beat_watch(self, ms: int) -> None:
        """The watchdog's thread was here, with the GIL, at this monotonic time."""
        self._put(layout.WATCH_BEAT_AT, layout.WORD.pack(ms))

    def collecting(self, since_ms: int, total_ms: int) -> None:
        """Python collects garbage since then (0: it does not), and has done so for that long in all before."""
        # the end of a collection must not be read before its time: the sum first
        self._put(layout.GC_TOTAL_AT, layout.WORD.pack(total_ms))
        self._put(layout.GC_SINCE_AT, layout.WORD.pack(since_ms))

    def lane_busy_since_ms(self) -> int:
        """Since when the lane executes one piece of code of one run; 0: it does not. Any thread of this process."""
        _seal, entries, _place, since_ms, _thread = _SPAN_RECORD.unpack_from(self._map, LANE_AT)
        return int(since_ms) if entries else 0

    def enter_thread(self, place: Place, ms: int) -> int:
        """The calling thread executes this from now on; the slot is for `leave_thread`."""
        try:
            slot = self._free_threads.pop()
        except IndexError:
            return self._overflow("threads")
        span = next(self._entries), place.seal, ms, threading.current_thread().native_id or 0
        at = layout.THREADS_AT + slot * layout.SPAN_SIZE
        _RECORD.pack_into(self._map, at, crc32(layout.SPAN.pack(*span)), *span, place.block)
        return slot

    def leave_thread(self, slot: int) -> None:
        """The thread that took this slot executes no turn from now on."""
        if slot != NO_SLOT:
            at = layout.THREADS_AT + slot * layout.SPAN_SIZE
            self._map[at : at + len(layout.NOBODY_THERE)] = layout.NOBODY_THERE
            self._free_threads.append(slot)

    def hold(self, run_id: str, fence: int) -> int:
        """This run is in flight here under this fence; the slot is for `drop`."""
        body = layout.HELD.pack(fence, layout.exact(run_id, 128))
        try:
            slot = self._free_runs.pop()
        except IndexError:
            return self._overflow("runs")
        self._put(layout.RUNS_AT + slot * layout.HELD_SIZE, body)
        return slot

    def drop(self, slot: int) -> None:
        """The run that took this slot is in flight no more."""
        if slot != NO_SLOT:
            at = layout.RUNS_AT + slot * layout.HELD_SIZE
            self._map[at : at + layout.HELD_SIZE] = layout.NOTHING_HELD
            self._free_runs.append(slot)

    def close(self, *, clean: bool = True) -> None:
        """Give the box up: a clean worker leaves no file, any other leaves it to be buried at once.

        The memory stays mapped, so that a thread which outlives the worker writes to nobody instead of failing. In a
        forked child this does nothing: the box is its parent's.
        """
        if self._fd < 0 or os.getpid() != self._pid:
            return
        if clean:
            self.set_phase(Phase.stopped_clean)
            self.path.unlink(missing_ok=True)
        released(self._fd)
        self._fd = -1

    def _overflow(self, table: str) -> int:
        """Say for good that this table is not complete: who could not be written down cannot be told apart later."""
        self._full[table] = True
        self._put(layout.FULL_AT, layout.FULL.pack(self._full["threads"], self._full["runs"]))
        return NO_SLOT

    def _put(self, at: int, body: bytes) -> None:
        record = sealed(body)
        self._map[at : at + len(record)] = record


def _lane_writers(
    mapping: mmap.mmap, entries: itertools.count[int]
) -> tuple[Callable[[Place, int], None], Callable[[], None], Callable[[int], None]]:
    """What writes that the lane enters, what writes that it leaves, and how they learn on which thread that is."""
    number, pack, pack_into = entries.__next__, layout.SPAN.pack, _RECORD.pack_into
    nobody, start, thread = layout.NOBODY_THERE, slice(LANE_AT, LANE_AT + len(layout.NOBODY_THERE)), 0

    def enter_lane(place: Place, ms: int) -> None:
        entry, seal = number(), place.seal
        checksum = crc32(pack(entry, seal, ms, thread))
        pack_into(mapping, LANE_AT, checksum, entry, seal, ms, thread, place.block)

    def leave_lane() -> None:
        mapping[start] = nobody

    def set_thread(thread_id: int) -> None:
        nonlocal thread
        thread = thread_id

    return enter_lane, leave_lane, set_thread


def _image(head: bytes) -> bytes:
    """A whole box before anything has happened: every record sealed, so that unknown means torn and nothing else."""
    nowhere = layout.NOBODY_THERE + bytes(layout.PLACE.size)
    zero = sealed(layout.WORD.pack(0))
    return b"".join(
        (
            layout.PREFIX.pack(layout.MAGIC, layout.VERSION),
            sealed(head),
            sealed(layout.PHASE.pack(Phase.starting.value, b"")),
            zero * layout.WORDS,
            nowhere,
            sealed(layout.FULL.pack(False, False)),
            nowhere * layout.THREAD_SLOTS,
            layout.NOTHING_HELD * layout.RUN_SLOTS,
        )
    )


def _start_ticks() -> int:
    """When this process started, in clock ticks since boot; 0 where the kernel does not say (not Linux)."""
    try:
        with open("/proc/self/stat", "rb") as file:
            after_name = file.read().rpartition(b")")[2]  # the name may itself hold spaces and brackets
    except FileNotFoundError:
        return 0
    return int(after_name.split()[19])
