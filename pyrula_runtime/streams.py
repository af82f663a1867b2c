"""Standard streams that are really there.

A process may be started with descriptors 0 to 2 closed. Python then has None for its streams, and the next file that is
opened, a store's lock perhaps, gets the number that every library writes its complaints to.
"""

from __future__ import annotations

import os
import sys


def fill_gaps() -> None:
    """Lead every standard descriptor and stream that is closed to nowhere; before anything else is opened."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(fd, True)
    os.close(fd)
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - they live as long as we do
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
