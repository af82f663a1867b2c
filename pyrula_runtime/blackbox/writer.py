"""The worker's side of its black box: make it, keep it up to date for next to nothing, give it up.

Each record has one writer at a time: beats and phase the control thread, the lane's span the lane, a slot of a table
whoever took it. A record is built aside and put in place by one C call that no other thread can interrupt, so while
one thread holds the GIL for ever, the records of all others are whole. `enter_lane` and `leave_lane` are on the path of
every step of the lane's loop: one checksum of twenty bytes and two copies, no name encoded, no list, no lock.
"""

from __future__ import annotations

import os
import struct
import uuid
from pathlib import Path
from zlib import crc32

from pyrula_runtime.blackbox import layout
from pyrula_runtime.blackbox.holding import born, released
from pyrula_runtime.blackbox.layout import LANE_AT, NO_SLOT, Phase, Place, sealed
from pyrula_runtime.core.errors import ConfigurationError
from pyrula_runtime.runtime_dir import boot_id

_pack_span = layout.SPAN.pack
# Seal, span and place at once, so that a record is replaced by a single call.
_pack_span_into = struct.Struct(f"<I{layout.SPAN.format[1:]}{layout.PLACE.size}s").pack_into
_LANE_END = LANE_AT + len(layout.NOBODY_THERE)


class BlackBox:
    """The box of this process. Never opened a second time: closing that descriptor would free its lock."""

    __slots__ = ("_entries", "_fd", "_free_runs", "_free_threads", "_full", "_map", "_pid", "path")

    def __init__(self, path: Path, image: bytes) -> None:
        self.path = path
        self._fd, self._map = born(path, image)
        self._pid = os.getpid()
        self._entries = 0
        self._free_runs = list(range(layout.RUN_SLOTS - 1, -1, -1))
        self._free_threads = list(range(layout.THREAD_SLOTS - 1, -1, -1))
        self._full = {"threads": False, "runs": False}

    @classmethod
    def create(cls, directory: Path, *, incarnation: str, worker_id: str, store_identity: str, now_ms: int) -> BlackBox:
        """Make and lock the box of a new incarnation, in phase `starting`, within this runtime directory."""
        head = layout.HEAD.pack(
            uuid.UUID(boot_id()).bytes,
            layout.store_digest(store_identity),
            layout.exact(incarnation, 48),
            layout.shortened(worker_id, 64),
            os.getpid(),
            _start_ticks(),
            now_ms,
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
        """The kernel's id of the lane's thread, for whoever looks from outside at what it does."""
        self._put(layout.LANE_THREAD_AT, layout.WORD.pack(thread_id))

    def enter_lane(self, place: Place, ms: int) -> None:
        """The lane executes this from now on; to be said before the code gets control."""
        self._entries = entries = self._entries + 1
        seal = place.seal
        _pack_span_into(self._map, LANE_AT, crc32(_pack_span(entries, seal, ms)), entries, seal, ms, place.block)

    def leave_lane(self) -> None:
        """The lane executes no turn from now on."""
        self._map[LANE_AT:_LANE_END] = layout.NOBODY_THERE

    def enter_thread(self, place: Place, ms: int) -> int:
        """The calling thread executes this from now on; the slot is for `leave_thread`."""
        try:
            slot = self._free_threads.pop()
        except IndexError:
            return self._overflow("threads")
        at = layout.THREADS_AT + slot * layout.SPAN_SIZE
        seal = place.seal
        _pack_span_into(self._map, at, crc32(_pack_span(1, seal, ms)), 1, seal, ms, place.block)
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


def _image(head: bytes) -> bytes:
    """A whole box before anything has happened: every record sealed, so that unknown means torn and nothing else."""
    nowhere = layout.NOBODY_THERE + bytes(layout.PLACE.size)
    zero = sealed(layout.WORD.pack(0))
    return b"".join(
        (
            layout.PREFIX.pack(layout.MAGIC, layout.VERSION),
            sealed(head),
            sealed(layout.PHASE.pack(Phase.starting.value, b"")),
            zero * 4,
            sealed(layout.FULL.pack(False, False)),
            nowhere * (1 + layout.THREAD_SLOTS),
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
