"""What every queue executes beside a job that blocks: the jobs themselves. Standard library only."""

from __future__ import annotations

import os
import time
from functools import cache

from benchmarks.tape import Pen

# the server that the queues share, and for how long a blocking job blocks
URL_VARIABLE = "BENCHMARK_SERVER"
BLOCK_VARIABLE = "BENCHMARK_BLOCK_S"


def note_quick(key: str) -> None:
    """A quick job is done."""
    _pen().note("end", key)


def block(how: str) -> None:
    """Block the loop that this is called on: `sleeps` lets other threads run, `holds` keeps the GIL from them."""
    seconds = int(os.environ[BLOCK_VARIABLE])
    _pen().note("stuck", how)
    if how == "sleeps":
        time.sleep(seconds)
    else:
        deadline_s = time.monotonic() + seconds
        any(map(deadline_s.__lt__, iter(time.monotonic, None)))  # all of it in C, which no signal cuts short
    _pen().note("released", how)


def server_url() -> str:
    """Where the server is."""
    return os.environ[URL_VARIABLE]


@cache
def _pen() -> Pen:
    return Pen()
