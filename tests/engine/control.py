"""What the control thread's rounds talk to, played by a test: a store that answers at once, lanes that just wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.commons import Commons
from pyrula_runtime.engine.lane_setup import LaneSetup
from pyrula_runtime.engine.slots import Slots
from pyrula_runtime.stores.protocol import CLEAN, Claim, ClaimRequest, Dossier, Holding, Release, Store

CAPACITY = 4


def token(run_id: str) -> Token:
    """The token of a claim of this run."""
    return Token(run_id=run_id, fence=1, nonce="n")


def claim(run_id: str, dossier: Dossier = CLEAN) -> Claim:
    """A claim of this run."""
    return Claim(
        token=token(run_id),
        workflow="flow",
        version=None,
        input=b"null",
        journal=(),
        journal_len=0,
        journal_bytes=0,
        created_ms=1,
        started_ms=1,
        now_ms=1,
        cancel_requested=False,
        dossier=dossier,
    )


class FakeStore:
    """Queues by name; `released` is what was given back, in order."""

    def __init__(self) -> None:
        self.queue: list[str] = []
        self.line: list[str] = []  # suspects
        self.held: dict[str, Dossier] = {}
        self.released: list[Release] = []
        self.requests: list[ClaimRequest] = []
        self.fails = False

    async def read(self, run_id: str) -> None:
        """Nothing is known of a run, so it has no relatives."""

    async def claim(self, request: ClaimRequest) -> tuple[Claim, ...]:
        self._answer()
        self.requests.append(request)
        source = self.line if request.suspects else self.queue
        taken = [source.pop(0) for _ in range(min(request.limit, len(source)))]
        self.held |= dict.fromkeys(taken, CLEAN)
        return tuple(map(claim, taken))

    async def release(self, release: Release) -> bool:
        self._answer()
        self.released.append(release)
        return self.held.pop(release.token.run_id, None) is not None

    async def holdings(self, _incarnation: str) -> tuple[Holding, ...]:
        self._answer()
        return tuple(
            Holding(token=token(run_id), workflow="flow", dossier=dossier) for run_id, dossier in self.held.items()
        )

    async def suspects(self) -> int:
        self._answer()
        return len(self.line)

    @property
    def given_back(self) -> list[str]:
        """The runs given back, in order."""
        return [release.token.run_id for release in self.released]

    def _answer(self) -> None:
        if self.fails:
            raise StoreUnavailable("away")


class FakeLanes:
    """What a worker's lanes were told, and what they hold."""

    def __init__(self, commons: Commons) -> None:
        self.draining = False
        self.taken: list[str] = []
        self.turns: list[Token] = []
        self.condemned: list[str] = []
        self.rounds: list[Callable[[], None]] = []
        self._coming = commons.coming

    def take(self, claims: Sequence[Claim]) -> None:
        self._coming.add(each.token for each in claims)
        self.taken += [each.token.run_id for each in claims]

    def begin(self, run_id: str) -> None:
        """The lane begins what it was given."""
        assert self._coming.begin(token(run_id))
        self.turns.append(token(run_id))
        self._coming.done(token(run_id))

    def end(self, run_id: str) -> None:
        """The turn of a run is over."""
        self.turns.remove(token(run_id))

    def held(self) -> list[Token]:
        return [*self._coming.held(), *self.turns]

    def forswear(self, one: Token) -> bool:
        return self._coming.forswear(one) and one not in self.held()

    def when_round(self, callback: Callable[[], None]) -> None:
        self.rounds.append(callback)

    def come_round(self) -> None:
        """The lane has come round."""
        rounds, self.rounds = self.rounds, []
        for callback in rounds:
            callback()

    def condemn(self, keep: str = "") -> list[Token]:
        going = [each for each in self.turns if each.run_id != keep]
        self.turns = [each for each in self.turns if each.run_id == keep]
        self.condemned += [each.run_id for each in going]
        return going


class Desk:
    """All of it together."""

    def __init__(self) -> None:
        self.store = FakeStore()
        self.slots = Slots(CAPACITY)
        self.commons = Commons(CAPACITY)
        self.lanes = FakeLanes(self.commons)
        self.setup = LaneSetup(
            store=cast(Store, self.store),
            programs={},
            incarnation="w",
            slots=self.slots,
            lock_ttl_ms=30_000,
            mono_ms=lambda: 1,
            on_free_slot=lambda: None,
            on_outage=lambda error: None,
            on_failed=lambda error: None,
        )

    @property
    def protocol(self) -> Any:
        """The store, as the parts take it."""
        return self.store

    def statuses(self) -> set[tuple[RunStatus, bool, bool]]:
        """How runs were given back: status, claimable, blamed."""
        return {(each.status, each.ready, each.dossier is not None) for each in self.store.released}
