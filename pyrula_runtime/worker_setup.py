"""What a worker is made of, and who hears of its life."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Literal

from pyrula_runtime.engine.payloads import Codec
from pyrula_runtime.engine.program import Program
from pyrula_runtime.engine.watchdog import Block, log_block, log_end
from pyrula_runtime.options import WorkerOptions
from pyrula_runtime.stores.clock import Clock, SystemClock
from pyrula_runtime.stores.protocol import Store

# as the black box has it: nobody's child, or what a supervisor started it as
WorkerRole = Literal["plain", "worker", "surge", "cell"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ears:
    """Who hears of a worker's life: `blocked` and `unblocked` on the watchdog's thread, the others on its loop."""

    ready: Callable[[], None] = lambda: None
    blocked: Callable[[Block], None] = log_block
    unblocked: Callable[[float], None] = log_end
    evacuated: Callable[[tuple[str, ...]], None] = lambda run_ids: None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSetup:
    """What a worker is made of. Under a supervisor the store's duties are the clerk's, and blame is the parent's."""

    programs: Sequence[Program]
    store: Store
    options: WorkerOptions
    runtime_dir: Path
    worker_id: str | None = None
    incarnation: str = field(default_factory=partial(secrets.token_hex, 8))
    role: WorkerRole = "plain"
    stack_file: IO[bytes] | None = None  # what the process writes as it dies (see stacks)
    ears: Ears = Ears()
    clock: Clock = field(default_factory=SystemClock)
    codec: Codec | None = None

    @property
    def is_plain(self) -> bool:
        """Whether nobody stands outside: then it does the store's duties and sees to its own blame."""
        return self.role == "plain"

    @property
    def capacity(self) -> int:
        """How many turns may run at once."""
        return 1 if self.role == "cell" else self.options.max_concurrent_turns
