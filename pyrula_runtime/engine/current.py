"""What the running code belongs to: the run, and inside a step the step, for logs, watchdog and idempotency keys.

A context variable carries it, so that child tasks, callbacks and threads started through the engine inherit it.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field

from pyrula_runtime.blackbox import Place


class StopSign:
    """Whether somebody has asked for a stop. One thread shows it, others look."""

    __slots__ = ("is_shown",)

    def __init__(self) -> None:
        self.is_shown = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Current:
    """Whose code is running. `op_id`, `step` and `attempt` are empty in a body."""

    run_id: str
    workflow: str
    op_id: str = ""
    step: str = ""
    attempt: int = 0
    sign: StopSign = field(default_factory=StopSign, repr=False, compare=False)
    place: Place = field(init=False, repr=False, compare=False)  # the same for the black box

    def __post_init__(self) -> None:
        """Make the place once, so that entering it costs next to nothing."""
        place = Place(run_id=self.run_id, workflow=self.workflow, step=self.step, op_id=self.op_id)
        object.__setattr__(self, "place", place)

    @property
    def stop_requested(self) -> bool:
        """Whether nobody wants this attempt's outcome any more: it was cancelled, is too late, or goes on elsewhere.

        A task of an async step is cancelled then; code in a thread can only look here, and return early.
        """
        return self.sign.is_shown

    @property
    def idempotency_key(self) -> str:
        """Equal in every attempt of this step of this run, also after crashes; the run's id in a body."""
        return f"{self.run_id}:{self.op_id}" if self.op_id else self.run_id


current: ContextVar[Current | None] = ContextVar("pyrula_current", default=None)
