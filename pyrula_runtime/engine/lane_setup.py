"""What a lane is made of, and what it tells its worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.core.status import RunEvent, RunStatus, after
from pyrula_runtime.engine.payloads import PLAIN, Payloads
from pyrula_runtime.engine.presence import Presence, Unrecorded
from pyrula_runtime.engine.program import Program
from pyrula_runtime.engine.slots import Slots
from pyrula_runtime.options import Replay
from pyrula_runtime.stores.protocol import ClaimRequest, Serves, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneSetup:
    """What a lane is made of."""

    store: Store
    programs: Mapping[str, Program]
    incarnation: str
    slots: Slots
    lock_ttl_ms: int
    mono_ms: Callable[[], int]
    on_free_slot: Callable[[], None]  # any thread: a slot came free that no claim took over
    on_outage: Callable[[StoreUnavailable], None]  # any thread: the store could not be used
    on_failed: Callable[[BaseException], None]  # any thread: the lane cannot go on
    presence: Presence = field(default_factory=Unrecorded)
    payloads: Payloads = PLAIN
    replay: Replay = "when-resumed"

    def claim_request(self, limit: int) -> ClaimRequest:
        """A request for at most `limit` runs of the programs served here."""
        return ClaimRequest(
            incarnation=self.incarnation,
            serves=tuple(Serves(workflow=p.name, version=p.version) for p in self.programs.values()),
            limit=limit,
            lock_ttl_ms=self.lock_ttl_ms,
            to_status=after(RunStatus.queued, RunEvent.claim),
        )

    def free_slot(self) -> None:
        """A turn is over and nothing has taken its place."""
        self.slots.give(1)
        self.on_free_slot()
