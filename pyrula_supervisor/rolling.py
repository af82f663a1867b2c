"""Replacement of workers that serve, new before old, one at a time: for a new generation, on request, when worn.

A worker to be replaced is marked `outdated` and goes on serving; the mark is the permission to start a second process
for its slot. As soon as two of one slot serve, one of them is drained, whatever brought them there. The next
replacement waits until the former is over to the last process, so that there is never more than one extra. When a
successor cannot start, the mark goes and the old one stays: capacity is worth more than the replacement.

A limit of memory that every new worker passes within a minute helps nobody, and starting processes without end costs
more than they hold; so those replacements slow down like the restarts of a slot that fails, and a warning says why.
"""

from __future__ import annotations

import logging

from pyrula_supervisor import exits, findings, pace, surging
from pyrula_supervisor.draft import Draft
from pyrula_supervisor.events import RestartAsked
from pyrula_supervisor.model import Child, Pace, Question, Slot
from pyrula_supervisor.tables import ChildState


def roll(draft: Draft) -> None:
    """Let replaced workers go, answer who waits for it, and begin the next replacement if there is one."""
    if draft.state.stopping:
        return
    shared = draft.state.by_slot()
    for sharing in shared.values():
        _let_go(draft, sharing)
    _answer_restarts(draft)
    surging.settle(draft)
    if draft.state.extras or any(child.outdated and not child.surged for child in draft.state.workers):
        return
    if not _restart_asked(draft):
        _replace_first(draft)


def restart_asked(draft: Draft, event: RestartAsked) -> None:
    """Somebody wants a new worker in a slot."""
    if draft.state.stopping:
        draft.answer(event.asker, "the supervisor is stopping, so nothing is restarted", ok=False)
    elif draft.slot(event.slot) is None:
        text = f"there is no slot {event.slot}; the slots are 0 to {draft.state.procs - 1}"
        draft.answer(event.asker, text, ok=False)
    else:
        draft.set(restarts=(*draft.state.restarts, Question(slot=event.slot, asker=event.asker)))


def failed_start(draft: Draft, text: str, slot: int | None = None) -> None:
    """The successor in a slot could not start, or its template (then none can): the old ones stay.

    Not one whose successor is on its way all the same, such as a surge beside a canary: there would be one too many.
    """
    for child in list(draft.state.workers):
        stays = child.outdated and not (child.leaving or child.stuck) and slot in (None, child.slot)
        others = (each for each in draft.state.of_slot(child.slot) if not each.leaving and each != child)
        if stays and not (child.surged and any(others)):
            draft.change(child, outdated="", surged=False)
    for question in draft.state.restarts:
        if question.incarnation and slot in (None, question.slot):
            _settle(draft, question, f"slot {question.slot} keeps its worker: {text}", ok=False)


def cancel(draft: Draft, why: str, first_slot: int = 0) -> None:
    """No slot from `first_slot` on is restarted any more."""
    for question in draft.state.restarts:
        if question.slot >= first_slot:
            _settle(draft, question, f"slot {question.slot} is not restarted: {why}", ok=False)


def _let_go(draft: Draft, sharing: list[Child]) -> None:
    """Of several that serve in one slot the latest of the current generation stays, and whoever cannot leave."""
    serving = [child for child in sharing if child.serving and child.incarnation != draft.state.canary]
    current = draft.state.generation.number
    serving.sort(key=lambda child: (child.generation == current, not child.outdated, child.ready_ms))
    for child in serving[:-1]:
        if child.stuck:
            continue  # until its lane goes round it could not read what it is told, nor finish anything
        draft.drain(child, child.outdated or "another serves in its place", draft.state.policy.drain_ms)


def _answer_restarts(draft: Draft) -> None:
    for question in draft.state.restarts:
        successors = (
            child
            for child in draft.state.of_slot(question.slot)
            if child.serving and not child.outdated and child.incarnation != question.incarnation
        )
        if question.incarnation and (successor := next(successors, None)):
            _settle(draft, question, f"slot {question.slot} has a new worker, pid {successor.pid}", ok=True)


def _restart_asked(draft: Draft) -> bool:
    """Whether a restart that somebody asked for is begun."""
    if not draft.state.restarts:
        return False
    question = draft.state.restarts[0]
    draft.mark(question.slot, pace=Pace())
    serving = [child for child in draft.state.of_slot(question.slot) if child.serving]
    if not serving:
        _settle(draft, question, f"slot {question.slot} had no worker that serves; one is being started", ok=True)
        return False
    begun = Question(slot=question.slot, asker=question.asker, incarnation=serving[-1].incarnation)
    draft.set(restarts=(begun, *draft.state.restarts[1:]))
    _outdate(draft, serving[-1], "a restart was asked for")
    return True


def _replace_first(draft: Draft) -> None:
    for child in draft.state.workers:
        slot = draft.slot(child.slot)
        is_free = child.serving and not child.surged and child.sentence is None
        if slot and is_free and child.incarnation != draft.state.canary and pace.is_due(slot.pace, draft.now_ms):
            why = _stale(draft, child) or _worn(draft, child)
            if why or (why := _grown(draft, child, slot)):
                _outdate(draft, child, why)
                return


def _stale(draft: Draft, child: Child) -> str:
    current = draft.state.generation.number
    return f"generation {current} takes the place of {child.generation}" if child.generation != current else ""


def _worn(draft: Draft, child: Child) -> str:
    policy, report = draft.state.policy, child.report
    if draft.state.reload or child.state is not ChildState.ready:
        return ""
    if report and report.loop_failed:
        return f"its background work has ended: {report.loop_failed}"
    if report and 0 < policy.max_turns <= report.turns_done:
        return f"it has done {report.turns_done} turns of {policy.max_turns}"
    return ""


def _grown(draft: Draft, child: Child, slot: Slot) -> str:
    limit_bytes = draft.state.policy.max_rss_bytes
    # beyond that it is killed as soon as it is weighed again
    is_past = 0 < limit_bytes < child.rss_bytes < findings.RSS_FACTOR * limit_bytes
    if draft.state.reload or child.state is not ChildState.ready or not is_past:
        return ""
    if not pace.is_due(slot.growth, draft.now_ms):
        return ""
    lived_ms = draft.now_ms - child.ready_ms
    former = slot.growth if lived_ms < pace.HEALTHY_MS else Pace()
    draft.mark(slot.number, growth=pace.failed(former, draft.now_ms, draft.chance()))
    why = f"it has {exits.sized(child.rss_bytes)} of memory, more than {exits.sized(limit_bytes)}"
    if lived_ms < pace.HEALTHY_MS:
        draft.say(f"{child.title} is past its memory after {exits.lasted(lived_ms)}: raise the limit", logging.WARNING)
    return why


def _outdate(draft: Draft, child: Child, why: str) -> None:
    draft.say(f"{child.title} is to be replaced: {why}")
    draft.change(child, outdated=why)


def _settle(draft: Draft, question: Question, text: str, *, ok: bool) -> None:
    draft.set(restarts=tuple(each for each in draft.state.restarts if each is not question))
    draft.say(text, logging.INFO if ok else logging.WARNING)
    draft.answer(question.asker, text, ok=ok)
