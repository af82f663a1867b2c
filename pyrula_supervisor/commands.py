"""What people ask of a supervisor that is done at once or with one question to one worker: scale and dump."""

from __future__ import annotations

from pyrula_runtime.wire import Stack
from pyrula_supervisor import rolling
from pyrula_supervisor.draft import Draft
from pyrula_supervisor.events import DumpAsked, ScaleAsked
from pyrula_supervisor.model import Child, Question, Slot
from pyrula_supervisor.options import MAX_PROCS

# A stack is taken in milliseconds, also with the GIL held; none comes of a stopped process that cannot be read.
DUMP_MS = 5_000


def scale_asked(draft: Draft, event: ScaleAsked) -> None:
    """Have more slots at once, or drain the highest."""
    state = draft.state
    if state.stopping:
        draft.answer(event.asker, "the supervisor is stopping, so it is not scaled", ok=False)
    elif not state.policy.min_ready <= event.procs <= MAX_PROCS:
        limits = f"from {state.policy.min_ready} (min_ready) to {MAX_PROCS}"
        draft.answer(event.asker, f"there can be {limits} workers, not {event.procs}", ok=False)
    else:
        text = f"scaled from {state.procs} to {event.procs} workers"
        fresh = tuple(Slot(number=number) for number in range(state.procs, event.procs))
        draft.set(procs=event.procs, slots=(*state.slots, *fresh)[: event.procs])
        rolling.cancel(draft, f"there are only {event.procs} slots now", first_slot=event.procs)
        for child in list(draft.state.workers):
            if child.slot >= event.procs and not child.leaving:
                draft.drain(child, text, state.policy.drain_ms)
        draft.say(text)
        draft.answer(event.asker, text)


def dump_asked(draft: Draft, event: DumpAsked) -> None:
    """Look at the worker of a slot: of several the stuck one, not its stand-in."""
    sharing = sorted(draft.state.of_slot(event.slot), key=lambda child: (child.stuck, child.serving, child.asked_ms))
    if not sharing:
        draft.answer(event.asker, f"slot {event.slot} has no worker now, so there is no stack", ok=False)
        return
    child, deadline_ms = sharing[-1], draft.now_ms + DUMP_MS
    question = Question(slot=event.slot, asker=event.asker, incarnation=child.incarnation, deadline_ms=deadline_ms)
    draft.set(dumps=(*draft.state.dumps, question))
    draft.look_at(child)


def stack(draft: Draft, child: Child, message: Stack) -> None:
    """A worker shows its lane's stack."""
    _answer(draft, child.incarnation, message.text, ok=True)


def gone(draft: Draft, child: Child, text: str) -> None:
    """A worker is gone, and its stack with it."""
    _answer(draft, child.incarnation, text, ok=False)


def judge(draft: Draft) -> None:
    """Wait no longer for stacks that do not come."""
    for question in draft.state.dumps:
        if draft.now_ms >= question.deadline_ms:
            text = f"slot {question.slot} has shown no stack within {DUMP_MS // 1000} s: its process may be stopped"
            _settle(draft, question, text, ok=False)


def _answer(draft: Draft, incarnation: str, text: str, *, ok: bool) -> None:
    for question in draft.state.dumps:
        if question.incarnation == incarnation:
            _settle(draft, question, text, ok=ok)


def _settle(draft: Draft, question: Question, text: str, *, ok: bool) -> None:
    draft.set(dumps=tuple(each for each in draft.state.dumps if each is not question))
    draft.answer(question.asker, text, ok=ok)
