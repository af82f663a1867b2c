"""The questions, by the name that the command line knows them by."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.figures import Measurement
from benchmarks.measurements import (
    attribution,
    cold,
    faults,
    five_steps,
    growth,
    household,
    idle,
    isolation,
    latency,
    limits,
    memory,
    neighbours,
    overhead,
    probes,
    queue_idle,
    queue_latency,
    queues,
    recovery,
    replacement,
    resume,
    size,
    sleeping,
    stopping,
    throughput,
    timers,
    waiting,
)

MEASUREMENTS: dict[str, Callable[[], Measurement]] = {
    "limits": limits.measurement,
    "throughput": throughput.measurement,
    "latency": latency.measurement,
    "recovery": recovery.measurement,
    "idle": idle.measurement,
    "cold": cold.measurement,
    "size": size.measurement,
    "resume": resume.measurement,
    "replacement": replacement.measurement,
    "memory": memory.measurement,
    "probes": probes.measurement,
    "stopping": stopping.measurement,
    "household": household.measurement,
    "attribution": attribution.measurement,
    "isolation": isolation.measurement,
    "faults": faults.measurement,
    "neighbours": neighbours.measurement,
    "overhead": overhead.measurement,
    "queues": queues.measurement,
    "queue_latency": queue_latency.measurement,
    "waiting": waiting.measurement,
    "five_steps": five_steps.measurement,
    "queue_idle": queue_idle.measurement,
    "growth": growth.measurement,
    "sleeping": sleeping.measurement,
    "timers": timers.measurement,
}
