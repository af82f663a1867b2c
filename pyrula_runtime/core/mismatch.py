"""Where code and journal part, as a person has to see it: what both say there, what was the last to fit, what to do.

The sentence is for logs and listings, the rest goes into the details of the run's error, for `pyrula runs show`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pyrula_runtime.core.entries import Entry, Json, Op, OpEntry
from pyrula_runtime.core.errors import JournalMismatch

# operations that are named; a body may wait for thousands
_NAMED = 5


class Parting:
    """The place of a journal where the code no longer fits it: the entry at `position`, for the operation `has`."""

    def __init__(self, position: int, has: Op, before: Sequence[Entry]) -> None:
        """`before` are the entries that fitted."""
        self._number = position + 1
        self._has = has
        self._fitted = next((entry.op for entry in reversed(before) if isinstance(entry, OpEntry)), None)

    def ended(self) -> JournalMismatch:
        """The code has ended before it."""
        hint = f"the code leaves out {self._has.name!r} and what follows: let ctx.patched(...) decide about that"
        return self._made(f"is {self._has}, but the code ended before it", "has ended", hint)

    def waits(self) -> JournalMismatch:
        """The code still waits for what it once gave up."""
        hint = f"the code once cancelled {self._has.name!r} here: let ctx.patched(...) decide whether it does"
        return self._made(f"cancels {self._has}, but the code still waits for it", f"waits for {self._has}", hint)

    def asks(self, asked: Sequence[Op], known: Collection[str]) -> JournalMismatch:
        """The code asks for these instead; `known` are the ids of all operations on record."""
        names = _listed(list(map(str, asked)))
        new = [op.name for op in asked if op.op_id not in known]
        if new:
            hint = (
                f"{_listed(list(map(repr, new)))} is not on record: let ctx.patched(...) decide about what is new, and "
                f"give what was only renamed its old name, as in @step(name={self._has.name!r})"
            )
        else:
            hint = (
                f"the code no longer asks for {self._has.name!r} here: let ctx.patched(...) decide about leaving it out"
            )
        return self._made(f"is {self._has}, but the code asks for {names}", f"asks for {names}", hint)

    def _made(self, sentence: str, code: str, hint: str) -> JournalMismatch:
        detail: dict[str, Json] = {
            "entry": self._number,
            "journal": f"has {self._has}",
            "code": code,
            "fitted": "nothing before it" if self._fitted is None else f"up to {self._fitted}",
            "hint": hint,
        }
        return JournalMismatch(f"journal entry {self._number} {sentence}", detail)


def _listed(names: list[str]) -> str:
    if len(names) > _NAMED:
        names[_NAMED:] = [f"{len(names) - _NAMED} more"]
    return ", ".join(names) or "nothing"
