"""Claims on their way to a lane: taken in the store, and not yet turns.

Two threads decide about such a claim. The lane begins its turn; the control thread gives it back when the lane does not
come to it, or when its token is dead. Whoever takes the token out decides: that is one operation of a dict, which the
GIL makes whole. A token stays known as held until its turn is, so that renewals never miss it on its way.

A token may also be forsworn before this worker has heard of it: an answer that was thought lost may come after all.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from pyrula_runtime.core.locks import Token


class Coming:
    """The claims that a lane was given and has not begun. Thread-safe."""

    def __init__(self) -> None:
        self._undecided: dict[Token, float] = {}  # since when
        self._held: dict[Token, None] = {}
        self._seen: set[Token] = set()
        self._forsworn: set[Token] = set()

    def __contains__(self, token: object) -> bool:
        return token in self._held

    def held(self) -> list[Token]:
        """Those that are to be kept alive."""
        return list(self._held)

    def add(self, tokens: Iterable[Token]) -> None:
        """These are coming; a second time for one of them changes nothing."""
        now_s = time.monotonic()
        for token in tokens:
            if token not in self._held:
                self._held[token] = None
                self._seen.discard(token)
                self._undecided[token] = now_s
            if token in self._forsworn:  # looked at after it was noted, so one of two threads sees the other
                self.withdraw(token)

    def undecided(self) -> list[Token]:
        """Those that have not begun."""
        return list(self._undecided)

    def unseen(self, for_s: float) -> bool:
        """Whether there is one that the lane has not looked at for so long."""
        latest_s = time.monotonic() - for_s
        waiting = list(self._undecided.items())
        return any(since_s <= latest_s and token not in self._seen for token, since_s in waiting)

    def seen(self, token: Token) -> None:
        """The lane has looked at it, and begins it later."""
        self._seen.add(token)

    def withdraw(self, token: Token) -> bool:
        """Never begin this one; False if it has begun, or is unknown."""
        if self._undecided.pop(token, None) is None:
            return False
        self._held.pop(token, None)
        return True

    def forswear(self, token: Token) -> bool:
        """Never begin this one, should it come at all; False if it has come."""
        self._forsworn.add(token)
        if token not in self._held:
            return True
        self._forsworn.discard(token)
        return False

    def is_wanted(self, token: Token) -> bool:
        """Whether it may still begin."""
        return token in self._undecided

    def begin(self, token: Token) -> bool:
        """The lane begins its turn, or gives it back: False if somebody has decided otherwise."""
        return self._undecided.pop(token, None) is not None

    def done(self, token: Token) -> None:
        """It has become a turn, or nothing."""
        self._held.pop(token, None)
        self._seen.discard(token)
        self._forsworn.discard(token)
