"""A process says that it cannot start: wrong set-up, an app that does not import, an app that cannot be forked.

During the very first start a wrong set-up ends everything with 78, once, with the one traceback that matters; later it
is a failed start like others, since what serves should go on serving.
"""

from __future__ import annotations

import dataclasses
import logging

from pyrula_runtime.wire import CannotStart, Role
from pyrula_supervisor import reloading, stopping
from pyrula_supervisor.draft import Draft
from pyrula_supervisor.model import Child
from pyrula_supervisor.tables import Phase

BAD_SETUP = 78
# It said that it will exit now; if it cannot do even that, it is killed.
LEAVES_MS = 2_000


def cannot_start(draft: Draft, child: Child, message: CannotStart) -> None:
    """A process gives up: wait for its end, unless that decides the whole start or a reload."""
    if child.leaving:
        return
    if message.unsafe_template and child.role is Role.template and draft.state.policy.start_method == "auto":
        _spawn_instead(draft, child, message.reason)
        return
    text = f"{child.title} cannot start: {message.reason}"
    if message.traceback:
        text += f"\n{message.traceback}"
    if draft.state.phase is Phase.starting and not draft.state.ever_ready and message.exit_code == BAD_SETUP:
        stopping.give_up(draft, BAD_SETUP, text)
        return
    # It has said what there is to say, so its stack would add nothing.
    child = draft.change(child, cause=message.reason, deadline_ms=draft.now_ms + LEAVES_MS, dumped=True)
    if not reloading.failed_start(draft, child, text):
        draft.say(text, logging.ERROR)


def _spawn_instead(draft: Draft, template: Child, reason: str) -> None:
    """The app cannot be forked: its workers become fresh interpreters, which costs time and memory only."""
    draft.say(f"workers start as fresh interpreters, not as forks of a template: {reason}", logging.WARNING)
    draft.drain(template, reason, LEAVES_MS)
    state = draft.state
    if state.generation.number == template.generation:
        draft.set(generation=dataclasses.replace(state.generation, forks=False, reason=reason))
    if state.reload and state.reload.new.number == template.generation:
        new = dataclasses.replace(state.reload.new, forks=False, reason=reason)
        draft.set(reload=dataclasses.replace(state.reload, new=new))
