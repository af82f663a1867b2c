"""Runs that belong to runs: what becomes of the children when their parent ends, by whatever way.

A child knows its parent by the operation that started it, and a parent tells its children nothing while it lives. When
it ends (its code returned or raised, it was cancelled, dropped or quarantined) the children whose policy says so are
asked to unwind, in the same write. Each of them does the same at its own end, so a cancel goes down the tree level by
level, and no level can be forgotten by a crash between two of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from pyrula_runtime.core.status import RunStatus


class OnEnd(StrEnum):
    """What becomes of a child that is still alive when its parent ends."""

    cancel = "cancel"
    abandon = "abandon"


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A child as its parent's end finds it."""

    run_id: str
    status: RunStatus
    on_end: OnEnd


def to_cancel(children: Iterable[Child]) -> tuple[str, ...]:
    """The children that end with their parent."""
    return tuple(child.run_id for child in children if child.on_end is OnEnd.cancel and not child.status.is_terminal)
