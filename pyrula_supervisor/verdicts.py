"""What the clerk's burials have made of runs, told to people: charges, suspects, quarantines."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from pyrula_runtime.wire import Judged
from pyrula_supervisor.actions import Incident
from pyrula_supervisor.draft import Draft


def judged(draft: Draft, message: Judged) -> None:
    """The death of a worker meant something for one run. A mark that makes no suspect is too little to be told."""
    died = draft.state.burials.get(message.worker)
    worker = died.finding.worker if died else ""
    end = f"the end of {worker or 'a worker'} ({message.cause})"
    if message.charged:
        count = f", {message.charged} times" if message.charged > 1 else ""
        _tell(draft, message, "charge", f"is charged{count} for {end}", logging.WARNING)
    if message.quarantined:
        _tell(
            draft,
            message,
            "quarantine",
            f"is in quarantine for {end}: `pyrula runs show` has the evidence",
            logging.ERROR,
        )
    elif message.suspect and message.marked:
        _tell(draft, message, "mark", f"is a suspect of {end}: it is tried again in a cell, alone", logging.WARNING)


def _tell(draft: Draft, message: Judged, kind: str, what: str, level: int) -> None:
    place = ", ".join(filter(None, (message.workflow, message.step and f"step {message.step}")))
    where = f" at {message.line}" if message.line else ""
    text = f"run {message.run_id} ({place}){where} {what}"
    whose: Mapping[str, Any] = {
        "run_id": message.run_id,
        "workflow": message.workflow,
        "step": message.step,
        "line": message.line,
    }
    draft.say(text, level, event=f"run:{kind}", cause=message.cause, **whose)
    draft.do(Incident(kind=kind, text=text, verdict=message.cause, **whose))
