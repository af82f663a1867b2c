"""What the service manager is told: READY once, STATUS when it changes, at most once a second."""

from __future__ import annotations

from pyrula_runtime.wire import Role
from pyrula_supervisor.actions import Notify
from pyrula_supervisor.draft import Draft
from pyrula_supervisor.model import State
from pyrula_supervisor.tables import Phase, PhaseEvent

STATUS_EVERY_MS = 1_000


def tell(draft: Draft) -> None:
    """Tell what has changed."""
    if draft.state.phase is Phase.starting and draft.state.ready_workers >= draft.state.policy.min_ready:
        draft.enter(PhaseEvent.enough)
        draft.do(Notify(state="READY=1"))
        draft.say(f"ready: {status_text(draft.state)}")
    text = status_text(draft.state)
    if text != draft.state.status_text and draft.now_ms - draft.state.status_ms >= STATUS_EVERY_MS:
        draft.set(status_text=text, status_ms=draft.now_ms)
        draft.do(Notify(state=f"STATUS={text}"))


def status_text(state: State) -> str:
    """One line for `systemctl status`."""
    turns = sum(child.report.turns_running for child in state.workers if child.report)
    running = f"{turns} turn{'' if turns == 1 else 's'} running"
    if state.stopping:
        left = sum(1 for child in state.children.values() if child.role is not Role.clerk)
        return f"{state.phase}: {left} process{'' if left == 1 else 'es'} left, {running}"
    ready = f"{state.ready_workers}/{state.procs} ready"
    if state.phase is Phase.starting:
        return f"starting: {ready}"
    return f"{'reloading: ' if state.reload else ''}{ready}, {running}"
