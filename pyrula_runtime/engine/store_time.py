"""The store's time, as a turn knows it between its calls to the store.

What is due is due by the store's clock, and the worker's own may be off. So a turn takes the time of its claim, which
the store has told, and adds what has passed here since then on a clock that nobody can set. The answer was some time
on its way: a turn is a little behind the store, never ahead of it, and nothing it judges to be due is early.
"""

from __future__ import annotations

from collections.abc import Callable


class StoreTime:
    """Calling it gives the store's wall time in milliseconds."""

    def __init__(self, told_ms: int, mono_ms: Callable[[], int]) -> None:
        """`told_ms` is what the store has just said; `mono_ms` a clock of this process that never jumps."""
        self._mono_ms = mono_ms
        self._ahead_ms = told_ms - mono_ms()

    def __call__(self) -> int:
        return self._mono_ms() + self._ahead_ms
