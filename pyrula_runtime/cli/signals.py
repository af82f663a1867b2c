"""What SIGTERM and SIGINT do to a worker: the first drains it, the second ends it at once.

The handlers are Python's own and not the loop's, so a second signal is obeyed while the control thread is busy. Before
the worker serves, there is nothing to finish and the first signal ends the process; without a handler a process that is
the first of its container would not even notice it. A signal that comes after the drain changes nothing any more.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType

from pyrula_runtime.leaving import quit_at_once

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """The signals of this process, from now on."""

    def __init__(self) -> None:
        self._drain: Callable[[], bool] | None = None
        self._asked = False
        for number in _SIGNALS:
            signal.signal(number, self._came)
        # whoever has started us may have had them blocked, and that is inherited
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)

    def drain_by(self, drain: Callable[[], bool]) -> None:
        """What the first signal does; False says that there was nothing to drain."""
        self._drain = drain

    def ignore(self) -> None:
        """The drain is over."""
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)

    def _came(self, number: int, _frame: FrameType | None) -> None:
        if self._asked:
            quit_at_once(128 + number)
        self._asked = True
        if self._drain is None or not self._drain():
            quit_at_once(0)
