"""How a supervisor ends: always, in bounded time, and with nothing lost that could be kept.

The first request drains: the template goes first, so that nothing can be forked behind our back, and all workers at
once get as long as one worker's drain may last. The clerk goes last, when the dead are buried. From the moment of the
request:

    0 ms                 nothing is started any more; Drain to the workers, to the templates
    + 2 s                SIGTERM to those that do not show that they drain (`draft.NUDGE_MS`)
    + drain              SIGKILL to the workers that are left (a worker's grace and its three cancel timeouts)
    + drain + 3 s        the clerk is drained, whatever is not buried yet
    + drain + 4 s        SIGKILL to the clerk
    + drain + 5 s        leave, whoever is left: 50 s with the defaults, as is published

The second signal, and a start that can never succeed, kill everything at once and wait half a second for the kernel.
What dies so is a crash like any other, and is buried from the black boxes at the next start.
"""

from __future__ import annotations

import logging

from pyrula_runtime.wire import Role
from pyrula_supervisor import burials, reloading, rolling
from pyrula_supervisor.actions import Kill, Notify, Quit
from pyrula_supervisor.draft import Draft
from pyrula_supervisor.events import StopAsked
from pyrula_supervisor.model import Child
from pyrula_supervisor.tables import Phase, PhaseEvent

CLERK_LEAVES_MS = 1_000
# Two looks a second apart, and what it takes to do them.
BURYING_MS = 3_000
LAST_MS = 5_000
# The kernel ends a killed process in milliseconds; the command line promises to leave within a second.
HURRY_MS = 500
# Said often, so that one lost datagram costs nothing.
EXTEND_EVERY_MS = 1_000
EXTEND_MS = 10_000


def asked(draft: Draft, event: StopAsked) -> None:
    """Somebody wants the supervisor to end. Only signals count as a second request: a stop command takes its time."""
    hurried = event.is_signal and draft.state.signals > 0
    draft.set(signals=draft.state.signals + event.is_signal)
    if not draft.state.stopping:
        _begin(draft)
    elif hurried and draft.state.phase is Phase.draining:
        draft.say("a second signal: everything is killed now", logging.WARNING)
        _hurry(draft, event.exit_code)


def give_up(draft: Draft, exit_code: int, text: str) -> None:
    """End a start that cannot succeed."""
    draft.say(text, logging.CRITICAL)
    _hurry(draft, exit_code)


def progress(draft: Draft, *, ticked: bool) -> None:
    """Take the end further. Only a tick may find that time is up."""
    if draft.state.phase is Phase.draining:
        _let_clerk_go(draft, ticked=ticked)
        _extend(draft)
    if draft.state.phase in (Phase.draining, Phase.killing) and _is_over(draft, ticked=ticked):
        draft.enter(PhaseEvent.over)
        draft.do(Quit(exit_code=draft.state.exit_code))


def _begin(draft: Draft) -> None:
    draft.enter(PhaseEvent.stop)
    draft.set(stopped_ms=draft.now_ms, extended_ms=draft.now_ms)
    draft.do(Notify(state="STOPPING=1", extend_ms=EXTEND_MS))
    draft.say("stopping: no process is started any more, all workers drain")
    _cancel(draft)
    staying = [child for child in draft.state.children.values() if not child.leaving]
    for child in sorted(staying, key=lambda child: child.role is not Role.template):
        if child.role is Role.template:
            draft.drain(child, "the supervisor stops", reloading.TEMPLATE_LEAVES_MS)
        elif child.role is not Role.clerk:
            draft.drain(child, "the supervisor stops", draft.state.policy.drain_ms)


def _cancel(draft: Draft) -> None:
    reloading.cancel(draft, "the supervisor stops")
    rolling.cancel(draft, "the supervisor stops")


def _hurry(draft: Draft, exit_code: int) -> None:
    draft.enter(PhaseEvent.hurry)
    _cancel(draft)
    draft.set(stopped_ms=draft.now_ms, exit_code=exit_code)
    for child in draft.state.children.values():
        draft.kill(child, "the supervisor leaves at once", planned=True)


def _let_clerk_go(draft: Draft, *, ticked: bool) -> None:
    clerk = draft.state.clerk
    if clerk is None:
        return
    others = any(child.role is not Role.clerk for child in draft.state.children.values())
    late_ms = draft.now_ms - draft.state.stopped_ms - draft.state.policy.drain_ms
    if (ticked and late_ms >= BURYING_MS) or not (others or burials.are_open(draft.state)):
        draft.drain(clerk, "the supervisor stops", CLERK_LEAVES_MS)


def _extend(draft: Draft) -> None:
    """Ask the service manager for more time; the bound above is what ends it."""
    if draft.now_ms - draft.state.extended_ms >= EXTEND_EVERY_MS:
        draft.set(extended_ms=draft.now_ms)
        draft.do(Notify(state="STOPPING=1", extend_ms=EXTEND_MS))


def _is_over(draft: Draft, *, ticked: bool) -> bool:
    left = list(draft.state.children.values())
    if not left:
        return True
    bound_ms = HURRY_MS if draft.state.phase is Phase.killing else draft.state.policy.drain_ms + LAST_MS
    if not ticked or draft.now_ms - draft.state.stopped_ms < bound_ms:
        return False
    _abandon(draft, left)
    return True


def _abandon(draft: Draft, left: list[Child]) -> None:
    """Nobody may hold up the end; the kernel ends what is left with its parent."""
    draft.say(f"not waiting any longer for {', '.join(child.title for child in left)}", logging.ERROR)
    for child in left:
        draft.do(Kill(incarnation=child.incarnation))
