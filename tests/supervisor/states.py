"""States of a supervisor, made for tests: two well workers and a clerk, and whatever a test wants otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrula_runtime.wire import Queue, Report, Role
from pyrula_supervisor.facts import Identity
from pyrula_supervisor.model import Child, Generation, Slot, State
from pyrula_supervisor.options import Policy
from pyrula_supervisor.tables import ChildState, Phase

NOW_MS = 1_000_000
WALL_MS = 1_700_000_000_000
IDENTITY = Identity(
    name="default", pid=4000, version="1.2.3", health_url="http://127.0.0.1:8081", store_url="sqlite:///x"
)


def report(name: str, done: int = 7, **changes: Any) -> Report:
    given: dict[str, Any] = {
        "incarnation": name,
        "turns_running": 2,
        "turns_done": done,
        "capacity": 50,
        "lane_lag_ms": 1.5,
        "draining": False,
        "store_ok": True,
    }
    return Report(**given | changes)


def worker(slot: int, **changes: Any) -> Child:
    name = changes.pop("incarnation", f"w{slot}")
    given: dict[str, Any] = {
        "incarnation": name,
        "role": Role.worker,
        "slot": slot,
        "generation": 1,
        "state": ChildState.ready,
        "pid": 5000 + slot,
        "asked_ms": NOW_MS - 60_000,
        "ready_ms": NOW_MS - 59_000,
        "report": report(name),
        "reported_ms": NOW_MS - 500,
    }
    return Child(**given | changes)


def clerk(**changes: Any) -> Child:
    return worker(-1, incarnation="clerk", role=Role.clerk, pid=4999, report=None, **changes)


def queue(**changes: Any) -> Queue:
    given: dict[str, Any] = {
        "incarnation": "clerk",
        "store_ok": True,
        "store_url": "sqlite:////srv/pyrula.db",
        "counts": {"queued": 3, "running": 2, "completed": 100},
    }
    return Queue(**given | changes)


def supervised(children: Sequence[Child] = (), **changes: Any) -> State:
    """A supervisor of two well workers, but for the changes."""
    kept = children or (worker(0), worker(1), clerk())
    given: dict[str, Any] = {
        "policy": Policy(procs=2, min_ready=1),
        "started_ms": NOW_MS - 90_000,
        "generation": Generation(number=1, forks=False, reason="the app has 3 threads"),
        "procs": 2,
        "phase": Phase.running,
        "slots": (Slot(number=0), Slot(number=1)),
        "children": {each.incarnation: each for each in kept},
        "queue": queue(),
        "queue_ms": NOW_MS - 1_000,
        "store_ms": NOW_MS - 80_000,
    }
    return State(**given | changes)
