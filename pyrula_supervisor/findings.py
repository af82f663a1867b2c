"""What is known of the end of a worker, for the clerk that buries it: the cause, and the evidence for it.

The parent says what it saw and why it did what it did. Which run that means anything for is not decided here: the
clerk reads the black box after the death, and core.blame judges.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyrula_runtime.core.deaths import Cause
from pyrula_runtime.core.frames import frames_of, run_of, stacks_of
from pyrula_runtime.users_code import is_users
from pyrula_runtime.wire import Finding, Role
from pyrula_supervisor import exits
from pyrula_supervisor.events import Exited
from pyrula_supervisor.model import Child
from pyrula_supervisor.options import Policy
from pyrula_supervisor.tables import ChildState

BLAMELESS = Finding(cause=Cause.blameless)
# a worker that leaks faster than its drain ends is killed at so many times its limit
RSS_FACTOR = 2


def finding(child: Child, cause: Cause, **facts: object) -> Finding:
    """A finding about a child that is about to end, or has just ended."""
    given: Mapping[str, object] = {
        "worker": named(child),
        "pid": child.pid,
        "in_cell": child.role is Role.cell,
        **facts,
    }
    return Finding(cause=cause.value, **given)  # type: ignore[arg-type]


def of_death(child: Child, event: Exited, policy: Policy) -> Finding:
    """What the death of a child means, which we have reaped."""
    peak = max(event.max_rss_bytes, child.rss_bytes)
    facts = {"exit": exits.words(event.status), "rss_bytes": peak, "limit_bytes": policy.max_rss_bytes}
    if child.state is ChildState.killed and event.status == exits.KILLED:
        # It was us: for the reason that we had, if it was a fault of its own.
        told = child.sentence.finding if child.sentence else BLAMELESS
        return finding(child, Cause(told.cause), **(_known(told) | facts))
    has_failed = bool(child.report and child.report.loop_failed)
    out_of_memory = event.by_kernel or 0 < RSS_FACTOR * policy.max_rss_bytes <= peak
    cause = exits.cause_of(event.status, out_of_memory=out_of_memory, loop_failed=has_failed)
    return finding(child, cause, **facts)


def _known(told: Finding) -> dict[str, object]:
    names = ("guilty", "entries", "for_ms", "line", "stack")
    return {name: getattr(told, name) for name in names}


def named(child: Child) -> str:
    """What a child is called in evidence, where pids stand apart."""
    return str(child.role) if child.slot < 0 else f"{child.role} {child.slot}"


def taker_of(text: str) -> tuple[str, str]:
    """Line and stack of what takes the memory, in the stacks of a worker: its only run's, whatever it does; or none."""
    of_runs = [stack for stack in stacks_of(text) if run_of(stack)]
    if len(set(map(run_of, of_runs))) == 1:
        return next(((line, stack) for stack in reversed(of_runs) if (line := line_of(stack))), ("", text))
    return line_of(text), text


def line_of(stack: str) -> str:
    """The innermost line of the user's code in a stack; empty if it has none: a loop that waits is no line to blame."""
    return next((str(frame) for frame in reversed(frames_of(stack)) if is_users(frame.file)), "")
