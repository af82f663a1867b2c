"""Staying: how long a turn that can only wait for a message stays where it is, before it suspends.

A suspended run costs nothing while it waits, and a whole replay when it goes on; a turn that stays costs its slot. So
it stays for as long as coming back would take, from when it has nothing more to do, and anew from each thing that
comes. If nothing comes in that time, no more was lost than one replay takes; if something does, a replay was saved.
Whoever knew beforehand when messages come could do no better than half of that cost (the ski rental problem). Without
it a run with n children would replay its journal n times; with it, results that come close upon each other are taken in
one turn, however many they are.

A short replay is not worth the further write that staying takes, and no slot is kept long for what does not come.

Times are compared, never read: who asks says what time it is.
"""

from __future__ import annotations

# a replay shorter than this costs about as much as suspending and claiming do in any case
LEAST_MS = 10
# the longest that a slot is kept for something that does not come
MOST_MS = 1_000


def patience_ms(replay_ms: int) -> int:
    """How long to wait for a message in a turn whose replay took so long."""
    return 0 if replay_ms < LEAST_MS else min(replay_ms, MOST_MS)


class Stay:
    """One turn's."""

    def __init__(self, began_ms: int) -> None:
        """The turn begins, with its replay."""
        self._began_ms = began_ms
        self._patience_ms: int | None = None
        self._since_ms: int | None = None  # when the turn had nothing more to do

    def caught_up(self, now_ms: int) -> None:
        """The body has come to where no turn was before; only the first time counts."""
        if self._patience_ms is None:
            self._patience_ms = patience_ms(now_ms - self._began_ms)

    def moved(self) -> None:
        """Something has come or was written: when next there is nothing to do, the stay begins anew."""
        self._since_ms = None

    def left_ms(self, now_ms: int) -> int:
        """The turn has nothing to do: how long it stays yet; 0 if it is to suspend."""
        if self._since_ms is None:
            self._since_ms = now_ms
        return max(self._since_ms + (self._patience_ms or 0) - now_ms, 0)
