"""How soon what fails may be tried again: at once after a healthy life, then ever later, never more than 30 s.

The steps are chosen so that a worker that dies a second after it was ready is started six times in 30 s and eight times
in 60 s: a crash loop costs the host nothing, and a worker that is sound again is back within half a minute. Jitter only
shortens, up to a fifth, so that 30 s stays the most.

A death for which a run is taken out is forgiven as soon as that is known: each run ends but one worker so, and if every
worker were to wait for that, a bad run now and then would leave nobody to serve the good ones.
"""

from __future__ import annotations

from pyrula_supervisor.model import Pace

STEPS_MS = (0, 250, 500, 2_000, 8_000, 30_000)
# Longer than the longest step: what lived so long has not died of how it was started.
HEALTHY_MS = 60_000


def failed(pace: Pace, now_ms: int, chance: float) -> Pace:
    """After one more failure; `chance` is at least 0 and less than 1."""
    step_ms = STEPS_MS[min(pace.failures, len(STEPS_MS) - 1)]
    return Pace(failures=pace.failures + 1, retry_ms=now_ms + round(step_ms * (1 - chance / 5)))


def forgiven(pace: Pace, now_ms: int) -> Pace:
    """The last failure was somebody else's."""
    return Pace(failures=max(pace.failures - 1, 0), retry_ms=min(pace.retry_ms, now_ms))


def is_due(pace: Pace, now_ms: int) -> bool:
    """Whether it may be tried now."""
    return now_ms >= pace.retry_ms
