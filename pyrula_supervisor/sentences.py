"""Killing a child for what its code did: a last look at its stack first, since a corpse has none.

The look takes milliseconds, and nobody waits for it longer than `LOOK_MS`: a process that is stopped shows nothing. A
lane that goes round meanwhile is pardoned; memory that was taken is not.
"""

from __future__ import annotations

import dataclasses
import logging

from pyrula_runtime.core.deaths import Cause
from pyrula_runtime.wire import Finding, cut
from pyrula_supervisor import exits, findings
from pyrula_supervisor.actions import Incident
from pyrula_supervisor.draft import Draft
from pyrula_supervisor.events import Weighed
from pyrula_supervisor.model import Child, Sentence
from pyrula_supervisor.tables import ChildState

LOOK_MS = 500
# what the incident of a killed child is called
_KINDS = {Cause.out_of_memory: "memory", Cause.store_frozen: "store_frozen"}


def weighed(draft: Draft, event: Weighed) -> None:
    """A child was weighed. One that is far past its limit takes more than it gives back in a drain."""
    child = draft.state.children.get(event.incarnation)
    if child is None:
        return
    child = draft.change(child, rss_bytes=event.rss_bytes)
    limit_bytes = draft.state.policy.max_rss_bytes
    if child.works and child.sentence is None and 0 < findings.RSS_FACTOR * limit_bytes <= child.rss_bytes:
        facts = {"rss_bytes": child.rss_bytes, "limit_bytes": limit_bytes}
        why = f"it has {exits.sized(child.rss_bytes)} of memory, far more than {exits.sized(limit_bytes)}"
        pass_on(draft, child, findings.finding(child, Cause.out_of_memory, **facts), why)


def blocked_too_long(draft: Draft, child: Child, why: str) -> None:
    """The code that keeps its lane may not keep it any longer. Code of no run on the lane is nobody's fault."""
    seen = child.seen
    if seen is None or child.sentence is not None:
        return
    cause = Cause.loop_blocked if seen.run_id or seen.unknown else Cause.blameless
    facts = {"guilty": seen.run_id, "entries": seen.entries, "for_ms": seen.stuck_ms}
    pass_on(draft, child, findings.finding(child, cause, **facts), why, pardonable=True)


def keeps_lock(draft: Draft, child: Child) -> None:
    """It stands still with the store's write lock, and so does every other process of the host: at once.

    Where the GIL is held its stack can be had in milliseconds, from outside.
    """
    if child.sentence is not None:
        return
    lasted = exits.lasted(child.seen.lock_wall_ms if child.seen else 0)
    why = f"it stood still for {lasted} with the store's write lock"
    told = findings.finding(child, Cause.store_frozen)
    if child.blocked and child.blocked.line:
        told = dataclasses.replace(told, line=child.blocked.line, stack=cut(child.blocked.stack))
    elif child.mute:
        pass_on(draft, child, told, why)
        return
    _execute(draft, child, Sentence(finding=told, why=why, at_ms=draft.now_ms))


def pass_on(draft: Draft, child: Child, told: Finding, why: str, *, pardonable: bool = False) -> None:
    """Sentence a child, and look at its stack a last time."""
    sentence = Sentence(finding=told, why=why, at_ms=draft.now_ms + LOOK_MS, pardonable=pardonable)
    draft.look_at(draft.change(child, sentence=sentence))


def looked(draft: Draft, child: Child, stack: str) -> None:
    """This is its stack: nothing has to be waited for any longer."""
    if child.sentence and child.state is not ChildState.killed:
        finding = child.sentence.finding
        # whoever takes memory may do it between two blocks, or in a thread: the line of a block is not its
        is_memory = finding.cause == Cause.out_of_memory
        line, stack = findings.taker_of(stack) if is_memory else (_line(child, stack), stack)
        told = dataclasses.replace(finding, stack=cut(stack), line=line)
        _execute(draft, child, dataclasses.replace(child.sentence, finding=told))


def pardon(draft: Draft, child: Child) -> Child:
    """Its lane goes on."""
    if child.sentence and child.sentence.pardonable and child.state is not ChildState.killed:
        return draft.change(child, sentence=None)
    return child


def judge(draft: Draft) -> None:
    """Wait no longer for a stack that does not come."""
    for child in list(draft.state.children.values()):
        sentence = child.sentence
        if sentence and child.state is not ChildState.killed and draft.now_ms >= sentence.at_ms:
            stack, line = (child.blocked.stack, child.blocked.line) if child.blocked else ("", "")
            told = dataclasses.replace(sentence.finding, stack=cut(stack), line=line)
            _execute(draft, child, dataclasses.replace(sentence, finding=told))


def _line(child: Child, stack: str) -> str:
    """What the child said itself has the source of the line with it, if it is still the same line."""
    line = findings.line_of(stack)
    said = child.blocked.line if child.blocked else ""
    return said if said and (not line or said.startswith(line)) else line


def _execute(draft: Draft, child: Child, sentence: Sentence) -> None:
    if child.state is ChildState.killed:
        return
    told, whose = sentence.finding, child.seen
    draft.change(child, sentence=sentence)
    text = f"{child.title} is killed: {sentence.why}" + (f", at {told.line}" if told.line else "")
    incident = Incident(
        kind=_KINDS.get(Cause(told.cause), "death"),
        text=text,
        slot=child.slot,
        run_id=told.guilty,
        workflow=whose.workflow if whose and told.guilty else "",
        step=whose.step if whose and told.guilty else "",
        line=told.line,
        verdict=told.cause,
    )
    draft.do(incident)
    draft.say(text, logging.ERROR, event="worker:killed", cause=told.cause, slot=child.slot, run_id=told.guilty)
    draft.kill(draft.state.children[child.incarnation], sentence.why)
