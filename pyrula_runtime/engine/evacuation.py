"""Runs that are handed back while their lane is stuck in the code of another one.

The control thread condemns them and gives them back in the store; the lane, when it comes round, unwinds their turns
before any of their code runs. The order is what matters: first the lane has its orders, which it obeys before anything
else it does, then the store is told. So there is no moment at which the code of a run may run in two places by our
doing. What a condemned turn still sends is refused, since its fence is dead by then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from pyrula_runtime.core.locks import Token


class Evacuation:
    """One lane's. `urgently` has the lane's thread call something before all else, `unwind` ends a turn there."""

    def __init__(self, urgently: Callable[[Callable[[], None]], None], unwind: Callable[[Token], None]) -> None:
        self._urgently = urgently
        self._unwind = unwind
        self._condemned: dict[Token, None] = {}

    def condemn(self, tokens: Iterable[Token]) -> None:
        """These are to be handed back; any thread."""
        self._condemned |= dict.fromkeys(tokens)
        self._urgently(self._obey)

    def spares(self, tokens: Collection[Token]) -> list[Token]:
        """Those that are not condemned; any thread."""
        return [token for token in tokens if token not in self._condemned] if self._condemned else list(tokens)

    def _obey(self) -> None:
        for token in list(self._condemned):
            self._unwind(token)
            self._condemned.pop(token, None)
