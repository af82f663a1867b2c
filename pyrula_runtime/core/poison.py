"""The poison budget: how many charges a run may collect before it is quarantined.

Charges count only while they are younger than the window; the budget is the number of charges that are forgiven, so
with `max_retries` 3 the fourth charge within the window quarantines. What deserves a charge is decided elsewhere, from
evidence; this file only counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How many charges are forgiven within how many milliseconds."""

    max_retries: int = 3
    window_ms: int = 3_600_000


def recent(charges_ms: Sequence[int], now_ms: int, budget: Budget) -> tuple[int, ...]:
    """The charges (wall-clock milliseconds) that still count."""
    return tuple(at for at in charges_ms if now_ms - at < budget.window_ms)


def charged(charges_ms: Sequence[int], now_ms: int, budget: Budget) -> tuple[tuple[int, ...], bool]:
    """Add a charge now: the charges to keep, and whether the run is quarantined by it."""
    kept = (*recent(charges_ms, now_ms, budget), now_ms)
    return kept, len(kept) > budget.max_retries
