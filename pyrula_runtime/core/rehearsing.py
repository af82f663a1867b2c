"""What a rehearsal of a run means, in words: whether its journal fits the code, and where the code would go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyrula_runtime.core.entries import Json, Op
from pyrula_runtime.core.errors import ErrorRecord
from pyrula_runtime.core.status import RunStatus

# characters of a value that still read as part of a sentence
_LINE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a run stands, or a copy of it after its rehearsal: value or error of one that has ended or was paused."""

    status: RunStatus
    value: Json = None
    error: ErrorRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a run can go on with the code, or could have come to the same end, and why."""

    fits: bool
    sentence: str


def verdict(real: End, copy: End, next_steps: Sequence[Op]) -> Verdict:
    """Compare how a run stands with how its copy stands when the code can go no further."""
    if next_steps:
        steps = ", ".join(map(str, next_steps))
        if real.status is RunStatus.completed:
            return Verdict(fits=False, sentence=f"the run has completed, but the code would go on with {steps}")
        return Verdict(fits=True, sentence=f"all of it was replayed; next the code performs {steps}")
    if copy.status is RunStatus.paused:
        return Verdict(fits=False, sentence=_parting(copy.error))
    if copy.status is RunStatus.waiting:
        fits = real.status is not RunStatus.completed
        sentence = "all of it was replayed; the code waits, for a time, a signal or a child"
        return Verdict(fits=fits, sentence=sentence if fits else f"the run has completed, but {sentence}")
    if not real.status.is_terminal or real.status is RunStatus.quarantined:
        return Verdict(fits=True, sentence=f"all of it was replayed, and the code ends: {_ended(copy)}")
    if _same(real, copy):
        return Verdict(fits=True, sentence=f"all of it was replayed, and the code ends as the run did: {_ended(copy)}")
    return Verdict(fits=False, sentence=f"the run ended: {_ended(real)}; the code now ends: {_ended(copy)}")


def _same(real: End, copy: End) -> bool:
    """Whether two ends are alike; errors by their type, for messages may hold times and addresses."""
    if real.status is not copy.status:
        return False
    if real.status is RunStatus.completed:
        return real.value == copy.value
    return (real.error and real.error.type) == (copy.error and copy.error.type)


def _ended(end: End) -> str:
    if end.status is RunStatus.completed:
        return f"completed with {_cut(repr(end.value))}"
    return f"{end.status} with {_cut(str(end.error))}" if end.error else end.status.value


def _parting(error: ErrorRecord | None) -> str:
    if error is None:
        return ""
    hint = error.detail.get("hint")
    return f"{error.message}; {hint}" if hint else error.message


def _cut(text: str) -> str:
    line = text.partition("\n")[0]
    return line if len(line) <= _LINE else f"{line[:_LINE]}…"
