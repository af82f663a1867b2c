"""What a turn has committed since its claim, kept so that it can be written again if the store loses it.

A store that fails over to a replica which lags, or starts again without its last second, has lost the youngest of what
it had acknowledged: of one run's writes always the end, and always whole commits, since a commit is one write. If the
claim is among what was lost, the token is dead and nothing can be mended: somebody else gets the run as it was. If it
is not, everything that is missing was committed by this very turn, and the store takes it again under the same token,
commit by commit and word for word, with all that went with the entries. Then the run goes on as if nothing had
happened, and no step is made twice.

Messages get lost like entries, and their numbers are given out again. So a commit is repeated without what it says of
numbers that the store does not know now, and a turn that has seen such messages ends when all is mended: the next one
looks at the inbox anew, and no message that came since is taken for one that was lost.

A failover loses seconds at most, so what is kept is bounded; whoever lost more finds the oldest of it gone here, too,
and the turn ends. The next one goes on from what the store still has.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from pyrula_runtime.stores.protocol import CancelRun, Commit, DeliverTo, Effect, EmitEvent, SubmitRun

# bytes that one turn keeps, of all that its commits carry: a failover loses what was written in a second or two
MOST_BYTES = 2_000_000


class Written:
    """The youngest commits of one turn that were answered with `done`, oldest first."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._commits: deque[Commit] = deque()
        self._bytes = 0
        self._most_bytes = most_bytes

    def keep(self, commit: Commit) -> None:
        """This one is written, and it is not the turn's last."""
        self._commits.append(commit)
        self._bytes += _size(commit)
        while self._bytes > self._most_bytes:
            self._bytes -= _size(self._commits.popleft())

    def beyond(self, length: int) -> tuple[Commit, ...]:
        """What to write again to a journal that has only `length` entries left; nothing if that cannot be mended."""
        missing = tuple(commit for commit in self._commits if commit.expected_len >= length)
        return missing if missing and missing[0].expected_len == length else ()


def as_of(commit: Commit, inbox_len: int) -> Commit:
    """The commit for a store to which only so many messages ever came."""
    consumed = tuple(seq for seq in commit.consumed if seq <= inbox_len)
    ending = commit.ending
    if ending is not None and ending.wait is not None and ending.wait.inbox_seen is not None:
        seen = min(ending.wait.inbox_seen, inbox_len)
        ending = replace(ending, wait=replace(ending.wait, inbox_seen=seen))
    return replace(commit, consumed=consumed, ending=ending)


def _size(commit: Commit) -> int:
    effects = map(_document, commit.effects)
    return sum(map(len, (*commit.entries, *commit.facts, commit.shown or b"", *effects)))


def _document(effect: Effect) -> bytes:
    match effect:
        case DeliverTo():
            return effect.message.body
        case SubmitRun():
            return effect.run.input
        case EmitEvent():
            return effect.event.body
        case CancelRun():
            return b""
