"""What a turn needs of the lane that it runs on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from pyrula_runtime.core.cursor import Asked
from pyrula_runtime.engine.body import Body
from pyrula_runtime.engine.journaling import Desk
from pyrula_runtime.engine.payloads import Payloads
from pyrula_runtime.engine.program import StepCall
from pyrula_runtime.options import Replay
from pyrula_runtime.stores.protocol import Claim

if TYPE_CHECKING:
    from pyrula_runtime.engine.turn import Turn


class Performing(Protocol):
    """A step being performed for a turn."""

    @property
    def idle_until_ms(self) -> int | None:
        """When its next attempt begins, by the store's time, if it does nothing but wait for that."""

    def stop(self) -> None:
        """Nobody wants its outcome any more."""


class Host(Desk, Protocol):
    """A lane, to its turns."""

    payloads: Payloads
    replay: Replay
    short_ms: int  # a wait that is over so soon does not end a turn

    @property
    def in_haste(self) -> bool:
        """Whether somebody waits for turns to end."""

    def mono_ms(self) -> int:
        """Milliseconds on a clock that never jumps."""

    def make_body(self, turn: Turn) -> Body:
        """The body of the turn's program."""

    def perform(self, turn: Turn, asked: Asked, call: StepCall) -> Performing:
        """Begin a step."""

    def read_inbox(self, turn: Turn, after_seq: int) -> None:
        """Read the run's messages after this one: a page comes to `turn.letters`, however long the store is away."""

    def new_run_id(self, now_ms: int, entropy: bytes) -> str:
        """The store's run id of this time and these 10 bytes."""

    def again(self, turn: Turn) -> None:
        """Everything of the turn so far is committed: give the run back, so that it goes on by a replay."""

    def over(self, turn: Turn, claims: Sequence[Claim] | None) -> None:
        """The turn ended by itself; `claims` came with its last commit (None: none were asked for)."""

    def lost(self, turn: Turn, reason: str) -> None:
        """The turn's lock is gone."""

    def broken(self, turn: Turn, error: Exception) -> None:
        """The turn's run cannot be written any more: it is to be paused until somebody looks."""

    def note(self, turn: Turn, level: int, message: str, *args: object) -> None:
        """Log a line with the run's fields."""
