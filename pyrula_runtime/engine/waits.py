"""The open waits of one turn: what is due when, what has come for them, and what the body gets when one is over.

Which wait is over next is the core's to say (core.waiting). When a wait is due was fixed when the body asked for it, by
the body's own time, so it is the same in every replay: nothing has to be written down for a run to wait.

Messages come with the claim, and later ones are read when somebody tells that there are more. While the body waits for
one, the turn does not end before it has seen all that it was told of: else the store would send it on at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from pyrula_runtime.core.cursor import Asked
from pyrula_runtime.core.entries import Completed, Failed, Op, OpKind
from pyrula_runtime.core.errors import ErrorRecord, RunCancelled, SignalTimeout, WaitTimeout
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.core.waiting import Letter, OpenWait, OpenWaits, child_of
from pyrula_runtime.engine.codec import load_error, load_json
from pyrula_runtime.engine.program import WaitCall
from pyrula_runtime.stores.protocol import Ending, Received

_LATE = {OpKind.signal: SignalTimeout.__name__, OpKind.timeout: WaitTimeout.__name__}


class Waits:
    """One turn's."""

    def __init__(
        self, given_back: Iterable[Letter], inbox: Sequence[Received], inbox_len: int, *, skipped: bool = False
    ) -> None:
        """`given_back` are letters that an operator's requeue gave back; `inbox` is the beginning of what is new.

        If it was `skipped`, what is new is still to be read from the first on.
        """
        self._open = OpenWaits()
        self._late: dict[str, str] = {}
        self._told = inbox_len
        self._seen = 0 if skipped else inbox_len
        self._read_to: int | None = None  # while the inbox is being read: what was told of by then
        self._open.bring(given_back)
        if inbox:
            self._bring(inbox)

    # what the body wants

    def hear(self, op: Op, name: str) -> None:
        """Wait for the first message of this name, too."""
        self._late[op.op_id] = ""
        self._open.open(OpenWait(op=op, hears=name))

    def begin(self, asked: Asked, call: WaitCall) -> None:
        """Wait for this, too."""
        due_ms = call.until_ms if call.for_ms is None else asked.at_ms + call.for_ms
        self._late[asked.op.op_id] = call.late
        self._open.open(OpenWait(op=asked.op, due_ms=due_ms, hears=call.hears))

    def end(self, op_id: str) -> None:
        """The body does not want it any more."""
        self._open.close(op_id)
        self._late.pop(op_id, None)

    def next(self, now_ms: int) -> Completed | Failed | None:
        """The outcome of the wait that is over now, if any is; the wait is closed by that."""
        settled = self._open.settle(now_ms)
        if settled is None:
            return None
        op, late = settled.wait.op, self._late.pop(settled.wait.op.op_id)
        if settled.letter is not None:
            return _heard(op, now_ms, settled.letter)
        if op.kind in _LATE:
            return Failed(op=op, at_ms=now_ms, error=ErrorRecord(type=_LATE[op.kind], message=late))
        return Completed(op=op, at_ms=now_ms, value=None)

    @property
    def due_ms(self) -> int | None:
        """When the first of them is over by itself."""
        return self._open.next_due_ms()

    # messages

    def tell(self, inbox_len: int) -> None:
        """So many messages ever came for the run."""
        self._told = max(self._told, inbox_len)

    @property
    def inbox_seen(self) -> int | None:
        """The last message that was looked at; None if no message could bring the body on."""
        return self._seen if self._open.hears else None

    @property
    def awaited(self) -> str:
        """For which messages the body waits, in words."""
        return self._open.awaited()

    @property
    def is_reading(self) -> bool:
        """Whether the inbox is being read."""
        return self._read_to is not None

    def read_on(self) -> int | None:
        """After which message the inbox has to be read now, if it has; what is found goes to `bring`."""
        if self.is_reading or not self._open.hears or self._seen >= self._told:
            return None
        self._read_to = self._told
        return self._seen

    def bring(self, page: Sequence[Received]) -> None:
        """What was found; nothing, if all that is left was taken over before."""
        if page:
            self._bring(page)
        else:
            self._seen = max(self._seen, self._read_to or 0)
        self._read_to = None

    def take_strays(self, ending: Ending) -> tuple[int, ...]:
        """Messages of children for whom nobody waits: they are over with the commit that ends the turn so.

        A run that is paused, or has ended, may be sent on with other code, which comes further and waits for them.
        """
        goes_on = ending.wait is not None or ending.again is not None
        return self._open.take_strays() if goes_on else ()

    def _bring(self, page: Sequence[Received]) -> None:
        self._seen = page[-1].seq
        self._open.bring(Letter(seq=each.seq, name=each.name, value=load_json(each.body)) for each in page)


def _heard(op: Op, now_ms: int, letter: Letter) -> Completed | Failed:
    if op.kind is not OpKind.child:
        return Completed(op=op, at_ms=now_ms, value=letter.value, message=letter.seq)
    told: Any = letter.value  # as kin.report_to wrote it
    if told["status"] == RunStatus.completed:
        return Completed(op=op, at_ms=now_ms, value=told.get("result"), message=letter.seq)
    error = load_error(told["error"]) if "error" in told else ErrorRecord(type=RunCancelled.__name__, message="")
    child = {"child": child_of(letter), "child_status": told["status"]}
    return Failed(op=op, at_ms=now_ms, error=replace(error, detail=error.detail | child), message=letter.seq)
