"""For how long a worker has kept the embedded store's write lock while nobody could make it let go. Rules alone.

All writers of the host wait meanwhile. Whoever is stopped or frozen has it for as long as the clock on the wall says.
Whoever has the GIL and hardly a CPU would let go sooner if it could: of its time only that counts in which it could
run, but at least a quarter. Looks that find it starved after others found the GIL held belong to that. Without that,
whoever is starved is only slow, and the lock goes on when it gets a CPU. Once anything has moved, all begins anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyrula_runtime.core.standstill import MOVING, MUTE, Sample, Stuck, Verdict, counted_ms
from pyrula_supervisor.ladder import STARVED_FACTOR

_STOPPED = frozenset({Verdict.stopped, Verdict.frozen})
# the watchdog's last beat, and the run and the number of its code that has the lane
Moved = tuple[int | None, str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LockKept:
    """For how long one tenure has lasted in a standstill (ms): as far as that counts, and by the clock on the wall.

    `since_ms` is since when the worker wants or has the lock, by its box; 0: it does not. `looked_ms` is the last look,
    and `moved` what it found that only a worker that goes on changes.
    """

    for_ms: int = 0
    wall_ms: int = 0
    since_ms: int = 0
    looked_ms: int = 0
    moved: Moved = (None, "", 0)

    def then(self, before: Sample, after: Sample, stuck: Stuck, *, since_ms: int, has_it: bool) -> LockKept:
        """After one more look, by which that is stuck. `has_it`: the worker does not only want the lock."""
        anew = LockKept(since_ms=since_ms, looked_ms=after.at_ms, moved=_moved(after))
        verdict = stuck.verdict
        if not since_ms or verdict in MOVING or verdict is Verdict.blocked:
            return anew
        stands = (since_ms, anew.moved) == (self.since_ms, self.moved)
        now = replace(self, looked_ms=after.at_ms) if stands else anew
        if not _keeps(stuck, after) or not has_it:
            return now
        wall_ms = max(0, after.at_ms - max(before.at_ms, self.looked_ms, since_ms) - after.late_ms)
        least_ms = round(max(counted_ms(before, after), wall_ms / STARVED_FACTOR))
        for_ms = wall_ms if verdict in _STOPPED else min(wall_ms, least_ms)
        return replace(now, for_ms=now.for_ms + for_ms, wall_ms=now.wall_ms + wall_ms)


def _keeps(stuck: Stuck, look: Sample) -> bool:
    """Whether a worker with that verdict lets go of nothing until somebody outside makes it.

    One that is starved may do so when it gets a CPU, unless its GIL was held before, and nothing has moved since.
    """
    held_before = stuck.still_held(look) is not None
    return stuck.verdict in MUTE | _STOPPED or (stuck.verdict is Verdict.starved and held_before)


def _moved(look: Sample) -> Moved:
    # code of no run has a number only as long as the watchdog asks for it
    return look.watch_beat_ms, look.run_id, (look.entries or 0) if look.run_id else 0
