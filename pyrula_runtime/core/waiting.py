"""Waits: operations that nobody performs, settled by time or by a message.

A wait is due at a time, or hears messages of a name, or both. Which one is settled next is a rule, so that it does not
depend on how often somebody looks: a message that has come goes before a time that has come, messages in order of
their arrival, each to the oldest wait that hears its name, and times in order. Messages that nobody hears yet are kept.

Times are compared, never read: who asks says what time it is.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyrula_runtime.core.entries import Completed, Entry, Failed, Json, Op, OpKind, Started, in_force
from pyrula_runtime.core.status import RunStatus

# no signal is called so, for names have no slash
_OF_CHILDREN = "child/"
# waits that are named to people; a run may wait for thousands
_NAMED = 3


def child_letters(run_id: str) -> str:
    """The name of the messages that tell how this child ended."""
    return _OF_CHILDREN + run_id


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWait:
    """An open wait. `hears` is the name of the messages that settle it, `due_ms` the time that does."""

    op: Op
    due_ms: int | None = None
    hears: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A message that has come, as far as waits look at it."""

    seq: int
    name: str
    value: Json


def child_of(letter: Letter) -> str:
    """The run id of the child that a message is about."""
    return letter.name.removeprefix(_OF_CHILDREN)


def _worded(name: str) -> str:
    if name.startswith(_OF_CHILDREN):
        return f"child run {name.removeprefix(_OF_CHILDREN)}"
    return f"signal {name!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A wait that is over: by this letter, or by its time."""

    wait: OpenWait
    letter: Letter | None


class OpenWaits:
    """The waits of one turn and the messages that it knows of."""

    def __init__(self) -> None:
        self._open: dict[str, OpenWait] = {}
        self._dues: list[tuple[int, int, OpenWait]] = []  # a heap; closed ones leave when they come to its top
        self._asked = 0
        self._hearers = 0
        self._hearing: dict[str, deque[OpenWait]] = {}  # by name, in order of asking, closed ones among them
        self._letters: dict[str, deque[Letter]] = {}  # by name, in order of arrival
        self._matches: list[tuple[int, str]] = []  # a heap: this letter may have a hearer

    @property
    def hears(self) -> bool:
        """Whether a message could settle anything."""
        return self._hearers > 0

    def open(self, wait: OpenWait) -> None:
        """Wait for this, too."""
        self._open[wait.op.op_id] = wait
        if wait.due_ms is not None:
            self._asked += 1
            heapq.heappush(self._dues, (wait.due_ms, self._asked, wait))
        if wait.hears is not None:
            self._hearers += 1
            self._hearing.setdefault(wait.hears, deque()).append(wait)
            self._match(wait.hears)

    def close(self, op_id: str) -> bool:
        """Wait for this no more; False if it is no open wait."""
        wait = self._open.pop(op_id, None)
        if wait is None:
            return False
        if wait.hears is not None:
            self._hearers -= 1
        return True

    def bring(self, letters: Iterable[Letter]) -> None:
        """Messages have come, in order of their numbers and after all that came before."""
        for letter in letters:
            self._letters.setdefault(letter.name, deque()).append(letter)
            self._match(letter.name)

    def settle(self, now_ms: int) -> Settled | None:
        """Close the wait that is settled next, if any is."""
        settled = self._by_letter() or self._by_time(now_ms)
        if settled is not None:
            self.close(settled.wait.op.op_id)
        return settled

    def next_due_ms(self) -> int | None:
        """When the first open wait is due, if any is ever."""
        while self._dues and self._dues[0][2] is not self._open.get(self._dues[0][2].op.op_id):
            heapq.heappop(self._dues)
        return self._dues[0][0] if self._dues else None

    def awaited(self) -> str:
        """For which messages, in words for people: signals by name, children by run id, oldest first."""
        names = list(dict.fromkeys(wait.hears for wait in self._open.values() if wait.hears is not None))
        more = [f"{len(names) - _NAMED:,} more"] if len(names) > _NAMED else []
        *first, last = [*map(_worded, names[:_NAMED]), *more] or [""]
        return f"{', '.join(first)} and {last}" if first else last

    def take_strays(self) -> tuple[int, ...]:
        """The numbers of messages of children for whom nobody waits, or ever will: a wait comes before its message."""
        names = [name for name in self._letters if name.startswith(_OF_CHILDREN) and not self._hearer(name)]
        return tuple(letter.seq for name in names for letter in self._letters.pop(name))

    def _match(self, name: str) -> None:
        letters = self._letters.get(name)
        if letters and name in self._hearing:
            heapq.heappush(self._matches, (letters[0].seq, name))

    def _hearer(self, name: str) -> OpenWait | None:
        hearing = self._hearing.get(name)
        while hearing and hearing[0] is not self._open.get(hearing[0].op.op_id):
            hearing.popleft()
        return hearing[0] if hearing else None

    def _by_letter(self) -> Settled | None:
        while self._matches:
            seq, name = heapq.heappop(self._matches)
            wait, letters = self._hearer(name), self._letters.get(name)
            if wait is None or not letters or letters[0].seq != seq:
                continue  # withdrawn meanwhile, or told of twice
            letter = letters.popleft()
            self._hearing[name].popleft()
            self._match(name)
            return Settled(wait=wait, letter=letter)
        return None

    def _by_time(self, now_ms: int) -> Settled | None:
        due_ms = self.next_due_ms()
        if due_ms is None or due_ms > now_ms:
            return None
        return Settled(wait=heapq.heappop(self._dues)[2], letter=None)


def given_back(journal: Sequence[Entry]) -> list[Letter]:
    """Messages that entries had taken over which count no more, since an operator sent the run on: they come again."""
    counting = [entry for _, entry in in_force(journal)]
    taken = {entry.message for entry in counting if isinstance(entry, Completed | Failed)}
    children = {entry.op.op_id: entry.child_id for entry in counting if isinstance(entry, Started)}
    letters: dict[int, Letter] = {}
    for entry in journal:
        if not isinstance(entry, Completed) or not entry.message or entry.message in taken:
            continue
        if entry.op.kind is OpKind.signal:
            letters[entry.message] = Letter(seq=entry.message, name=entry.op.name, value=entry.value)
        elif (child_id := children.get(entry.op.op_id)) is not None:
            value: dict[str, Json] = {"status": RunStatus.completed, "result": entry.value}
            letters[entry.message] = Letter(seq=entry.message, name=child_letters(child_id), value=value)
    return [letters[seq] for seq in sorted(letters)]
