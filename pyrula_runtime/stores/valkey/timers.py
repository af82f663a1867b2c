"""Due times of all shards: a look at them asks only those that may have something due."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from pyrula_runtime.core.status import Moves
from pyrula_runtime.stores import protocol as p
from pyrula_runtime.stores.valkey.asking import in_turn, whole
from pyrula_runtime.stores.valkey.dues import Dues
from pyrula_runtime.stores.valkey.shards import Shards


class Timers:
    """The verb `wake_due`."""

    def __init__(self, shards: Shards, dues: Dues) -> None:
        self._shards, self._dues = shards, dues

    def wake_due(self, moves: Moves, limit: int) -> Awaitable[p.Woken]:
        """Send on what is due, and say when the next is."""
        return self._shards.first.wake_due(moves, limit) if self._shards.most == 1 else self._wake_around(moves, limit)

    async def _wake_around(self, moves: Moves, limit: int) -> p.Woken:
        dues, woken = self._dues, 0
        nexts: list[int] = []

        async def wake(numbers: Sequence[int]) -> bool:
            nonlocal woken
            for number in numbers:
                if woken >= limit:
                    nexts.append(dues.now_ms())  # there may be more
                    return True
                begun = dues.begin(number)
                told = await self._shards.shard(number).wake_due(moves, limit - woken)
                dues.told(number, begun, told.next_due_ms, told.now_ms)
                woken += told.woken
                if told.next_due_ms is not None:
                    nexts.append(told.next_due_ms)
            return False

        fault = await in_turn(self._by_server(), wake)
        known_ms = dues.earliest_ms()
        nexts += [] if known_ms is None else [known_ms]
        return whole(p.Woken(woken=woken, next_due_ms=min(nexts, default=None), now_ms=dues.now_ms()), fault)

    def _by_server(self) -> list[list[int]]:
        """The shards to be asked, those of one server together, in the order in which it is their turn."""
        turn = {number: at for at, number in enumerate(self._dues.to_ask(self._shards.most))}
        servers = [sorted(turn.keys() & set(numbers), key=turn.__getitem__) for numbers in self._shards.by_server()]
        return sorted(filter(None, servers), key=lambda numbers: turn[numbers[0]])
