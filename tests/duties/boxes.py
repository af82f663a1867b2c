"""What black boxes, crash files and supervisors say of a death, with everything but the point of the test filled in."""

from __future__ import annotations

from pathlib import Path

from pyrula_runtime.blackbox import NOBODY, BoxView, Executing, Held, Nobody, Phase
from pyrula_runtime.core.locks import Token
from pyrula_runtime.duties.inquest import Witnesses
from pyrula_runtime.stacks import CrashNote
from pyrula_runtime.wire import Finding

END_MS = 100_000
# the entry of what has run for 40 ms: its monotonic nanosecond
ENTRY = (END_MS - 40) * 1_000_000


def span(run_id: str, step: str = "pay", *, for_ms: int = 40, later_ns: int = 0) -> Executing:
    return Executing(
        run_id=run_id,
        workflow="order",
        step=step,
        op_id=f"{step}#1" if step else "",
        entries=(END_MS - for_ms) * 1_000_000 + later_ns,
        thread=11,
    )


def box(
    lane: Executing | Nobody | None = NOBODY,
    *threads: Executing,
    in_flight: tuple[str, ...] = ("me",),
    role: str = "worker",
    phase: Phase = Phase.ready,
    runs_known: bool = True,
    threads_known: bool = True,
) -> BoxView:
    return BoxView(
        path=Path("w.box"),
        held=False,
        boot_id="boot",
        store_digest=b"",
        incarnation="inc",
        worker_id="host-1",
        role=role,
        pid=42,
        start_ticks=0,
        created_ms=0,
        parent_pid=1,
        phase=phase,
        exit_reason="",
        control_beat_ms=END_MS - 900,
        lane_beat_ms=END_MS - 10,
        store_lock_since_ms=0,
        lane_thread=11,
        watch_beat_ms=END_MS - 20,
        watch_thread=12,
        gc_since_ms=0,
        gc_total_ms=0,
        lane=lane,
        threads=threads,
        threads_complete=threads_known,
        in_flight=tuple(Held(run_id=run_id, fence=1) for run_id in in_flight),
        in_flight_complete=runs_known,
    )


def token(run_id: str, fence: int = 1) -> Token:
    return Token(run_id=run_id, fence=fence, nonce="n")


def seen(view: BoxView | None, finding: Finding | None = None, note: CrashNote | None = None) -> Witnesses:
    return Witnesses(incarnation="inc", box=view, note=note, finding=finding)
