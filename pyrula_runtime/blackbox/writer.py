"""The worker's side of its black box: make it, keep it up to date for next to nothing, give it up.

Each record has one writer at a time: beats and phase the control thread, the lane's span the lane, a slot of a table
whoever took it. A record is built aside and put in place by one C call that no other thread can interrupt, so while
one thread holds the GIL for ever, the records of all others are whole. A span is put in place by two or three, names
first and the stamp last: whoever is interrupted in between is not there yet.

`enter_lane` and `leave_lane` are on the path of every step of the lane's loop, where each call and each lookup counts
twice what it does alone. So an entry writes two numbers, the names only if they are others than before, a leave writes
one; both are functions made for one box, with all they need at hand, and not methods.
"""

from __future__ import annotations

import mmap
import os
import threading
import uuid
from collections.abc import Callable
from pathlib import Path

from pyrula_runtime.blackbox import layout
from pyrula_runtime.blackbox.holding import born, released
from pyrula_runtime.blackbox.layout import LANE_AT, NO_SLOT, NOBODYS_STAMP, Phase, Place, sealed
from pyrula_runtime.core.errors import ConfigurationError
from pyrula_runtime.runtime_dir import boot_id

_NUMBER = layout.ALIGNMENT


class BlackBox:
    """The box of this process. Never opened a second time: closing that descriptor would free its lock."""

    enter_lane: Callable[[Place, int], None]  # the lane executes this since that ns; said before it gets control
    leave_lane: Callable[[], None]  # the lane executes no turn from now on

    def __init__(self, path: Path, image: bytes) -> None:
        self.path = path
        self._fd, self._map = born(path, image)
        self._pid = os.getpid()
        self._numbers = memoryview(self._map).cast("Q")
        self.enter_lane, self.leave_lane = _lane_writers(self._map, self._numbers)
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
        """The kernel's id of the lane's thread, for whoever looks from outside at what it does."""
        self._put(layout.LANE_THREAD_AT, layout.WORD.pack(thread_id))

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
        stamp = self._numbers[LANE_AT // _NUMBER]
        return 0 if stamp == NOBODYS_STAMP else stamp // 1_000_000

    def enter_thread(self, place: Place, at_ns: int) -> int:
        """The calling thread executes this since then; the slot is for `leave_thread`."""
        try:
            slot = self._free_threads.pop()
        except IndexError:
            return self._overflow("threads")
        start, numbers = layout.THREADS_AT + slot * layout.SPAN_SIZE, self._numbers
        thread_id = threading.current_thread().native_id or 0
        self._map[start + layout.SPAN.size : start + layout.SPAN_SIZE] = place.block
        numbers[start // _NUMBER + 2] = thread_id
        numbers[start // _NUMBER + 1] = at_ns ^ thread_id ^ place.digest
        numbers[start // _NUMBER] = at_ns
        return slot

    def leave_thread(self, slot: int) -> None:
        """The thread that took this slot executes no turn from now on."""
        if slot != NO_SLOT:
            self._numbers[(layout.THREADS_AT + slot * layout.SPAN_SIZE) // _NUMBER] = NOBODYS_STAMP
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
    mapping: mmap.mmap, numbers: memoryview[int]
) -> tuple[Callable[[Place, int], None], Callable[[], None]]:
    """What writes that the lane enters, and what writes that it leaves."""
    stamp, check = LANE_AT // _NUMBER, LANE_AT // _NUMBER + 1
    names = slice(LANE_AT + layout.SPAN.size, LANE_AT + layout.SPAN_SIZE)
    nobody, written = NOBODYS_STAMP, None

    def enter_lane(place: Place, at_ns: int) -> None:
        nonlocal written
        if place is not written:
            mapping[names] = place.block
            written = place
        numbers[check] = at_ns ^ place.digest
        numbers[stamp] = at_ns

    def leave_lane() -> None:
        numbers[stamp] = nobody

    return enter_lane, leave_lane


def _image(head: bytes) -> bytes:
    """A whole box before anything has happened: every record sealed, so that unknown means torn and nothing else."""
    nowhere = layout.NOBODY_THERE + bytes(layout.PLACE.size)
    zero = sealed(layout.WORD.pack(0))
    return b"".join(
        (
            layout.PREFIX.pack(layout.MAGIC, layout.VERSION),
            sealed(head),
            sealed(layout.PHASE.pack(Phase.starting.value, b"")),
            (zero * layout.WORDS).ljust(layout.LANE_AT - layout.WORDS_AT, b"\0"),
            nowhere,
            sealed(layout.FULL.pack(False, False)).ljust(layout.THREADS_AT - layout.FULL_AT, b"\0"),
            nowhere * layout.THREAD_SLOTS,
            layout.NOTHING_HELD * layout.RUN_SLOTS,
        )
    ).ljust(layout.SIZE, b"\0")


def _start_ticks() -> int:
    """When this process started, in clock ticks since boot; 0 where the kernel does not say (not Linux)."""
    try:
        with open("/proc/self/stat", "rb") as file:
            after_name = file.read().rpartition(b")")[2]  # the name may itself hold spaces and brackets
    except FileNotFoundError:
        return 0
    return int(after_name.split()[19])
