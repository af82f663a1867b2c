"""Everybody's view of a black box: read one at any moment, find those of the dead, remove what is buried.

A view is a photograph. None in it means unknown, because the record was being written at that moment; look again if
the holder lives, and leave it at that if it is dead.
"""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

from pyrula_runtime.blackbox import layout
from pyrula_runtime.blackbox.holding import Glimpse, glimpse, sweep
from pyrula_runtime.blackbox.layout import NOBODY, SEAL, Executing, Held, Nobody, Phase, text_of


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxView:
    """What a box said when it was read; `*_ms` are monotonic but for `created_ms`, and 0 means never or not at all."""

    path: Path
    held: bool  # whether its process was alive
    boot_id: str
    store_digest: bytes
    incarnation: str
    worker_id: str
    role: str  # "plain" if it was nobody's child, else as what its supervisor started it
    pid: int
    start_ticks: int
    created_ms: int  # wall clock
    parent_pid: int  # who had started it, or adopted it since
    phase: Phase | None
    exit_reason: str
    control_beat_ms: int | None
    lane_beat_ms: int | None
    store_lock_since_ms: int | None
    lane_thread: int | None  # the kernel's id of the lane's thread
    watch_beat_ms: int | None  # when its watchdog thread last had the GIL
    watch_thread: int | None
    gc_since_ms: int | None  # a garbage collection is under way since then
    gc_total_ms: int | None  # how long all before it took together
    lane: Executing | Nobody | None
    threads: tuple[Executing, ...]
    threads_complete: bool  # False: a record was unknown, or the table has overflowed at some time
    in_flight: tuple[Held, ...]
    in_flight_complete: bool


def read_box(path: Path) -> BoxView | None:
    """The box at this path; None if there is none, or it is not one, or of a layout that we cannot read."""
    seen = glimpse(path, layout.SIZE)
    return None if seen is None else _read(path, seen)


def find_dead(directory: Path, *, boot_id: str, store_identity: str) -> list[BoxView]:
    """The boxes in this runtime directory whose holders are dead, of this boot and this store.

    Boxes of another boot are removed, as are leftovers of births: nobody holds anything under them any more. Several
    processes may find the same box; all may bury it, which the store makes the same as burying it once.
    """
    folder = layout.boxes_in(directory)
    sweep(folder)
    seen = ((path, glimpse(path, layout.SIZE)) for path in sorted(folder.glob("*.box")))
    # Those of the living are not even parsed: this is asked every second, and mostly all live.
    views = [_read(path, found) for path, found in seen if found is not None and not found.held]
    dead = [view for view in views if view is not None]
    for stale in dead:
        if stale.boot_id != boot_id:
            remove(stale)
    store = layout.store_digest(store_identity)
    return [view for view in dead if view.boot_id == boot_id and view.store_digest == store]


def remove(view: BoxView) -> None:
    """Take a buried box away; somebody else may have done it already."""
    view.path.unlink(missing_ok=True)


def _read(path: Path, seen: Glimpse) -> BoxView | None:
    data = seen.data
    if len(data) != layout.SIZE or layout.PREFIX.unpack_from(data) != (layout.MAGIC, layout.VERSION):
        return None
    head = unsealed(data, layout.HEAD_AT, layout.HEAD)
    return None if head is None else _view(path, data, head, held=seen.held)


def _view(path: Path, data: bytes, head: tuple[Any, ...], *, held: bool) -> BoxView:
    boot, store, incarnation, worker_id, role, pid, start_ticks, created_ms, parent_pid = head
    phase, reason = _phase(data)
    threads_full, runs_full = unsealed(data, layout.FULL_AT, layout.FULL) or (True, True)
    lane_thread = _word(data, layout.LANE_THREAD_AT)
    spans = [span_in(data, layout.THREADS_AT + slot * layout.SPAN_SIZE) for slot in range(layout.THREAD_SLOTS)]
    runs = [_held(data, layout.RUNS_AT + slot * layout.HELD_SIZE) for slot in range(layout.RUN_SLOTS)]
    return BoxView(
        path=path,
        held=held,
        boot_id=str(uuid.UUID(bytes=boot)),
        store_digest=store,
        incarnation=text_of(incarnation),
        worker_id=text_of(worker_id),
        role=text_of(role),
        pid=pid,
        start_ticks=start_ticks,
        created_ms=created_ms,
        parent_pid=parent_pid,
        phase=phase,
        exit_reason=reason,
        control_beat_ms=_word(data, layout.CONTROL_BEAT_AT),
        lane_beat_ms=_word(data, layout.LANE_BEAT_AT),
        store_lock_since_ms=_word(data, layout.STORE_LOCK_AT),
        lane_thread=lane_thread,
        watch_beat_ms=_word(data, layout.WATCH_BEAT_AT),
        watch_thread=_word(data, layout.WATCH_THREAD_AT),
        gc_since_ms=_word(data, layout.GC_SINCE_AT),
        gc_total_ms=_word(data, layout.GC_TOTAL_AT),
        lane=span_in(data, layout.LANE_AT, lane_thread or 0),
        threads=tuple(span for span in spans if isinstance(span, Executing)),
        threads_complete=not threads_full and None not in spans,
        in_flight=tuple(run for run in runs if isinstance(run, Held)),
        in_flight_complete=not runs_full and None not in runs,
    )


def unsealed(data: bytes, at: int, body: struct.Struct) -> tuple[Any, ...] | None:
    """The fields of a record, or None if its seal does not fit."""
    start = at + SEAL.size
    content = data[start : start + body.size]
    return body.unpack(content) if SEAL.unpack_from(data, at) == (crc32(content),) else None


def _word(data: bytes, at: int) -> int | None:
    found = unsealed(data, at, layout.WORD)
    return found[0] if found else None


def _phase(data: bytes) -> tuple[Phase | None, str]:
    found = unsealed(data, layout.PHASE_AT, layout.PHASE)
    return (Phase(found[0]), text_of(found[1])) if found else (None, "")


def span_in(data: bytes, at: int, lane_thread: int = 0) -> Executing | Nobody | None:
    """The span that starts here; on the lane it does not carry the thread itself."""
    stamp, check, thread = layout.SPAN.unpack_from(data, at)
    if stamp == layout.NOBODYS_STAMP:
        return NOBODY
    block = data[at + layout.SPAN.size : at + layout.SPAN_SIZE]
    if stamp ^ check ^ thread != layout.digest_of(block):
        return None
    run_id, workflow, step, op_id = map(text_of, layout.PLACE.unpack(block))
    return Executing(
        run_id=run_id,
        workflow=workflow,
        step=step,
        op_id=op_id,
        entries=stamp,
        thread=thread or lane_thread,
    )


def _held(data: bytes, at: int) -> Held | Nobody | None:
    if data.startswith(layout.NOTHING_HELD, at):
        return NOBODY
    found = unsealed(data, at, layout.HELD)
    return Held(run_id=text_of(found[1]), fence=found[0]) if found else None
