"""The steps of one turn: those being performed, and those that may begin as soon as enough is committed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from pyrula_runtime.core.cursor import Asked
from pyrula_runtime.engine.host import Performing


class Performances:
    """Nothing happens in the world on the strength of something that a crash could take back."""

    def __init__(self, perform: Callable[[Asked], Performing]) -> None:
        self._perform = perform
        self._waiting: deque[tuple[int, Asked]] = deque()
        self._running: dict[str, Performing] = {}

    @property
    def are_busy(self) -> bool:
        """Whether any step does something, or is about to."""
        return bool(self._waiting) or any(each.idle_until_ms is None for each in self._running.values())

    @property
    def due_ms(self) -> int | None:
        """When the first of those begins again that wait for their next attempt."""
        return min(
            (each.idle_until_ms for each in self._running.values() if each.idle_until_ms is not None), default=None
        )

    @property
    def are_resting(self) -> bool:
        """Whether no step is performed; some may be about to begin."""
        return not self._running

    def add(self, steps: Iterable[Asked], after: int) -> None:
        """Perform these when so many entries of the journal are committed."""
        self._waiting.extend((after, asked) for asked in steps)

    def begin(self, committed: int) -> None:
        """So many entries are committed."""
        while self._waiting and self._waiting[0][0] <= committed:
            _, asked = self._waiting.popleft()
            if not asked.withdrawn:
                self._running[asked.op.op_id] = self._perform(asked)

    def over(self, op_id: str) -> None:
        """This one has its outcome."""
        self._running.pop(op_id, None)

    def stop(self, op_id: str) -> None:
        """Nobody wants the outcome of this one any more."""
        if (running := self._running.pop(op_id, None)) is not None:
            running.stop()

    def stop_all(self) -> None:
        """Nobody wants any outcome any more."""
        self._waiting.clear()
        running, self._running = self._running, {}
        for each in running.values():
            each.stop()
