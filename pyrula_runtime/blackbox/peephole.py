"""The parent's view of a living worker: a few records of its box, several times a second, for microseconds each.

A photograph of the whole box takes a third of a millisecond; whoever watches needs the words and the lane, and the
threads only when something is wrong. So the file stays mapped, its head is read once, and a look copies what stands
side by side. A record that was being written reads as None, as in any other view of a box.

The mapping outlives the file: what a dead worker left can be read here after the file has been removed.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from pyrula_runtime.blackbox import layout
from pyrula_runtime.blackbox.holding import mapped
from pyrula_runtime.blackbox.layout import Executing, Nobody, text_of
from pyrula_runtime.blackbox.reader import span_in, unsealed

_WORDS = struct.Struct("<" + "IQ" * layout.WORDS)
_WORD_STARTS = range(0, layout.WORDS * layout.WORD_SIZE, layout.WORD_SIZE)
_FROM, _TO = layout.WORDS_AT, layout.LANE_AT + layout.SPAN_SIZE


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """What a living worker's box said just now, as in `BoxView`."""

    control_beat_ms: int | None
    lane_beat_ms: int | None
    store_lock_since_ms: int | None
    lane_thread: int | None
    watch_beat_ms: int | None
    watch_thread: int | None
    gc_since_ms: int | None
    gc_total_ms: int | None
    lane: Executing | Nobody | None


class Peephole:
    """One box, open for looks until it is closed."""

    def __init__(self, mapping: mmap.mmap, *, is_own: bool) -> None:
        self._map = mapping
        self._is_own = is_own
        head = unsealed(mapping[: layout.PHASE_AT], layout.HEAD_AT, layout.HEAD)
        if head is None or layout.PREFIX.unpack_from(mapping) != (layout.MAGIC, layout.VERSION):
            raise ValueError("no black box of this layout")
        _boot, _store, incarnation, _worker, role, self.pid, self.start_ticks, *_ = head
        self.incarnation = text_of(incarnation)
        self.role = text_of(role)

    @classmethod
    def open(cls, path: Path) -> Peephole | None:
        """Look into this box from now on; None if there is none, or none of this layout."""
        found = mapped(path, layout.SIZE)
        if found is None:
            return None
        try:
            return cls(found.mapping, is_own=found.is_own)
        except ValueError:
            if not found.is_own:
                found.mapping.close()
            return None

    def look(self) -> Glance:
        """The words, and who has the lane."""
        data = self._map[_FROM:_TO]
        fields = _WORDS.unpack_from(data)
        words = [
            word if crc32(data[at + layout.SEAL.size : at + layout.WORD_SIZE]) == seal else None
            for at, seal, word in zip(_WORD_STARTS, fields[::2], fields[1::2], strict=True)
        ]
        return Glance(
            control_beat_ms=words[0],
            lane_beat_ms=words[1],
            store_lock_since_ms=words[2],
            lane_thread=words[3],
            watch_beat_ms=words[4],
            watch_thread=words[5],
            gc_since_ms=words[6],
            gc_total_ms=words[7],
            lane=span_in(data, layout.LANE_AT - _FROM, words[3] or 0),
        )

    def threads(self) -> tuple[Executing, ...] | None:
        """What each thread in a run's code executes; None if not all of that is known."""
        data = self._map[layout.FULL_AT : layout.RUNS_AT]
        full = unsealed(data, 0, layout.FULL)
        spans = [span_in(data, at) for at in range(layout.THREADS_AT - layout.FULL_AT, len(data), layout.SPAN_SIZE)]
        if full is None or full[0] or None in spans:
            return None
        return tuple(span for span in spans if isinstance(span, Executing))

    def close(self) -> None:
        """Look no more."""
        if not self._is_own:
            self._map.close()
