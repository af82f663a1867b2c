"""When a failed step is tried again: exponential backoff with jitter, as a pure schedule.

The delay before attempt n+1 is `initial_s * factor**(n-1)`, capped at `max_s`, and then shortened by up to `jitter` of
itself, so that steps which failed together do not come back together. Jitter only shortens: `max_s` stays a bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pyrula_runtime.core.errors import UsageError

# the longest delay that can be asked for: later times would not fit everywhere a date is kept (64-bit milliseconds)
_YEAR_S = 366 * 24 * 3600
# stands for powers that a float cannot hold: above every ceiling, and still 0 if there is nothing to multiply
_HUGE = 1e300


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Policy of a step.

    attempts: how often it is tried in all, 1 or more (1: never again).
    initial_s, factor, max_s: delay after the first failure in seconds, its growth, its ceiling.
    jitter: share of the delay, 0 to 1, that chance may take off.
    never_for: exception classes that are not tried again.
    """

    attempts: int = 1
    initial_s: float = 0.5
    factor: float = 2.0
    max_s: float = 60.0
    jitter: float = 0.2
    never_for: tuple[type[BaseException], ...] = ()

    def __post_init__(self) -> None:
        """Refuse what is absurd, and what would only fail when a step does."""
        attempts: object = self.attempts
        if isinstance(attempts, bool) or not isinstance(attempts, int):
            raise UsageError(f"Retry(attempts={attempts!r}): it must be a whole number")
        never_for: object = self.never_for
        if not isinstance(never_for, tuple) or not all(map(_is_error_class, never_for)):
            raise UsageError(f"Retry(never_for={never_for!r}): it must be a tuple of exception classes")
        if self.attempts < 1:
            raise UsageError(f"Retry(attempts={self.attempts}): a step is tried at least once")
        delays = 0 <= self.initial_s <= _YEAR_S and 0 <= self.max_s <= _YEAR_S
        if not (delays and 1 <= self.factor < math.inf and 0 <= self.jitter <= 1):
            raise UsageError(f"{self}: delays must be between 0 s and a year, factor >= 1 and jitter between 0 and 1")

    def delay_ms(self, failed_attempts: int, chance: float) -> int | None:
        """Milliseconds to wait after so many failed attempts (>= 1), or None to give up; `chance` is in [0, 1)."""
        if failed_attempts >= self.attempts:
            return None
        try:
            growth = float(self.factor) ** (failed_attempts - 1)
        except OverflowError:
            growth = _HUGE
        delay_s = min(self.initial_s * growth, self.max_s)
        return round(delay_s * (1 - self.jitter * chance) * 1000)


def _is_error_class(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


ONCE = Retry()


def as_retry(value: Retry | int | None) -> Retry:
    """A policy from what the user wrote: a Retry, a number of attempts, or nothing."""
    if value is None:
        return ONCE
    return value if isinstance(value, Retry) else Retry(attempts=value)
