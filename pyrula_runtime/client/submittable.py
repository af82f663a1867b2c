"""What can be submitted by function: a workflow as a client sees it, and the book of those this process has defined.

The layer that defines workflows stands above the client, so it announces them here; by their names a client finds the
types of results, and knows when nobody here has heard of a name.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from pyrula_runtime.core.entries import Json

R_co = TypeVar("R_co", covariant=True)


class Submittable(Protocol[R_co]):
    """A workflow, to a client."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def version(self) -> str | None:
        """What its runs are pinned to, if anything."""

    def check_input(self, given: Json) -> None:
        """Raise InputError if its parameters cannot be filled from this."""

    def read_result(self, stored: Json) -> R_co:
        """The typed result of a run; InputError if it does not fit any more."""


_announced: dict[str, Submittable[Any]] = {}


def announce(workflow: Submittable[Any]) -> None:
    """This process defines this workflow; a later one of the same name takes its place."""
    _announced[workflow.name] = workflow


def known(name: str) -> Submittable[Any] | None:
    """The workflow of this name that this process defines, if any."""
    return _announced.get(name)
