"""Restarting a run from a step: a new run that begins with what the first one had recorded before that step.

The first run stays as it is, also if it has ended. The new one has an id of its own, and so its steps have idempotency
keys of their own: what the first run did in the world from that step on is done once more. Signals that the first run
took from there on are sent to the new one, children that had not told how they ended are started again, and what is
waited for is counted from the fork.

While the code goes over what was copied, it gets the same time, the same UUIDs and the same chances as the first run
had; from there on they are its own.

Only entries in force are copied. The messages that brought them are of another inbox, so they get numbers that no inbox
has: a requeue of the fork can still give their signals back, in their order.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyrula_runtime.core.entries import (
    AttemptFailed,
    Completed,
    Entry,
    Failed,
    Forked,
    OpEntry,
    OpKind,
    ReplayedEntry,
    Started,
    Withdrawn,
    in_force,
    is_own_doing,
    requeue_from,
)
from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.core.limits import MAX_JOURNAL_ENTRIES

# operations that a refusal names
_NAMED = 10


def fork_from(run_id: str, journal: Sequence[Entry], step: str | None, failed_op: str | None) -> int:
    """How many entries of a journal a fork begins with.

    `step` is an operation's id (`charge#1`), or its name if there is one alone of that name; its first entry is the
    first that the fork has not. None: where a requeue would go on, at `failed_op` or the journal's end.

    What the body did by itself right before that is left out, too, and done again: with half of it on record, a patch
    that the body asks for there would be taken for one of new code, and the fork sent the old way.
    """
    counting = in_force(journal)
    position = requeue_from(journal, failed_op) if step is None else _first_of(run_id, counting, step)
    before = [each for each in counting if each[0] < position]
    if any(at == position and is_own_doing(entry) for at, entry in counting):
        while before and is_own_doing(before[-1][1]):
            position, _ = before.pop()
    return position


def _first_of(run_id: str, counting: Sequence[tuple[int, ReplayedEntry]], step: str) -> int:
    first: dict[str, int] = {}
    named: set[str] = set()
    for position, entry in counting:
        if isinstance(entry, OpEntry):
            first.setdefault(entry.op.op_id, position)
            if entry.op.name == step:
                named.add(entry.op.op_id)
    if step in first:
        return first[step]
    if len(named) == 1:
        return first[named.pop()]
    if named:
        raise UsageError(f"run {run_id} has several operations called {step!r}: {_listed(sorted(named))}; say which")
    raise UsageError(f"run {run_id} has no operation {step!r} on record; it has {_listed(list(first))}")


def copied(journal: Sequence[Entry], length: int) -> list[int]:
    """The positions that a fork takes over of the first `length` entries.

    Of an operation without an outcome there it takes nothing: it is tried anew, and its child, which knows only the run
    that started it, started anew.
    """
    counting = {at: entry for at, entry in in_force(journal) if at < length}
    settled = {each.op.op_id for each in counting.values() if isinstance(each, Completed | Failed | Withdrawn)}
    begun = {
        at
        for at, each in counting.items()
        if isinstance(each, AttemptFailed | Started) and each.op.op_id not in settled
    }
    forks = {at for at in range(length) if isinstance(journal[at], Forked)}
    return sorted((counting.keys() | forks) - begun)


def signals_again(journal: Sequence[Entry], kept: Sequence[int]) -> list[int]:
    """Positions of the signals that a fork with these entries has still to hear, in the order of their arrival."""
    taken = {entry.message for entry in map(journal.__getitem__, kept) if isinstance(entry, Completed | Failed)}
    found: dict[int, int] = {}
    for position, entry in enumerate(journal):
        if isinstance(entry, Completed) and entry.op.kind is OpKind.signal and entry.message not in taken:
            found[entry.message] = position
    return [found[message] for message in sorted(found)]


def copied_message(place: int) -> int:
    """The number of the message that brought the entry at this place of a fork's journal."""
    return place - MAX_JOURNAL_ENTRIES - 1


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMED]) or "none"
    return f"{shown} and {len(names) - _NAMED} more" if len(names) > _NAMED else shown
