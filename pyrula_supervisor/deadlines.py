"""What has lasted too long, looked at by ticks alone: any other event may have waited while the supervisor slept.

A tick that comes late says by how much, and its step moves the supervised clock instead of judging: the children were
perhaps asleep as well, and may wake after us. Where every tick is late, the host is starved and not asleep: then each
moves the clock, but no two in a row go without judgement, or nothing would ever be overdue.
"""

from __future__ import annotations

import logging

from pyrula_runtime.wire import Dump, Role
from pyrula_supervisor import commands, endings, exits, pace, sentences
from pyrula_supervisor.actions import Incident, Kill, Send, Terminate
from pyrula_supervisor.draft import KILL_AGAIN_MS, Draft
from pyrula_supervisor.events import Tick
from pyrula_supervisor.model import NEVER, Child, Pace
from pyrula_supervisor.tables import ChildState

# The shell ticks at least so often; being later than one period is a pause.
TICK_MS = 250
# While it stops, the service manager's clock counts, and only a pause that is none of a busy host is taken off it.
LONG_PAUSE_MS = 2_000
# From asking a process that does not start for its stack until it is killed.
LAST_WORDS_MS = 1_000


def slept(draft: Draft, event: Tick) -> bool:
    """Move the clock if the supervisor itself was away; whether nothing else may come of this tick."""
    if event.late_ms <= (LONG_PAUSE_MS if draft.state.stopping else TICK_MS):
        draft.set(slept=False)
        return False
    before = draft.state.slept
    draft.pause(event.late_ms)
    if event.late_ms > LONG_PAUSE_MS:
        draft.say(f"resumed after {exits.lasted(event.late_ms)}: every deadline moves by as much", logging.WARNING)
    return not before


def judge(draft: Draft) -> None:
    """Act on whoever is late, and forgive whoever has been well for long."""
    for child in list(draft.state.children.values()):
        if draft.now_ms >= child.nudge_ms and child.pid:
            _nudge(draft, child)
    for child in list(draft.state.children.values()):
        if draft.now_ms >= child.deadline_ms:
            _overdue(draft, child)
    sentences.judge(draft)
    commands.judge(draft)
    for child in list(draft.state.workers):
        slot = draft.slot(child.slot)
        if slot and slot.pace != Pace() and child.serving and draft.now_ms - child.ready_ms >= pace.HEALTHY_MS:
            draft.mark(slot.number, pace=Pace())


def _nudge(draft: Draft, child: Child) -> None:
    draft.change(child, nudge_ms=NEVER)
    if not (child.report and child.report.draining):
        draft.do(Terminate(incarnation=child.incarnation))


def _overdue(draft: Draft, child: Child) -> None:
    if child.state is ChildState.killed:
        _will_not_die(draft, child)
    elif child.state is ChildState.draining:
        _will_not_leave(draft, child)
    elif child.state is ChildState.starting and not child.dumped:
        draft.do(Send(incarnation=child.incarnation, message=Dump()))
        draft.change(child, dumped=True, deadline_ms=draft.now_ms + LAST_WORDS_MS)
    else:
        _will_not_start(draft, child)


def _will_not_start(draft: Draft, child: Child) -> None:
    within = exits.lasted(draft.state.policy.startup_timeout_ms)
    draft.say(f"{child.title} was not ready within {within}; it is killed", logging.ERROR)
    draft.kill(child, f"it was not ready within {within}")
    template = draft.state.children.get(child.by_template)
    if child.state is ChildState.asked and template and template.serving:
        draft.kill(template, "it did not fork when asked to")


def _will_not_leave(draft: Draft, child: Child) -> None:
    text = f"{child.title} was told to leave ({child.cause}) and did not in time; it is killed"
    draft.say(text, logging.WARNING)
    if child.role is not Role.template:
        draft.do(Incident(kind="death", text=text, slot=child.slot))
    draft.kill(child, "it did not leave in time")


def _will_not_die(draft: Draft, child: Child) -> None:
    if child.pid:
        draft.do(Kill(incarnation=child.incarnation))
        draft.change(child, deadline_ms=draft.now_ms + KILL_AGAIN_MS)
    else:
        endings.gone(draft, child, "never came to life", was_asked=False)
