"""What workers tell about themselves."""

from __future__ import annotations

from dataclasses import dataclass

from pyrula_runtime.stores.turns import Serves


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRecord:
    """What a worker tells about itself, so that others can explain why a run waits. `age_ms` is set by the store."""

    incarnation: str
    worker_id: str
    pid: int
    host: str
    serves: tuple[Serves, ...]
    capacity: int
    running: int
    draining: bool
    age_ms: int = 0
