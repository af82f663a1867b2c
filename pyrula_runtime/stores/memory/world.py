"""What the handles of one store in memory share: its runs, keys, workers and listeners."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.stores import protocol as p
from pyrula_runtime.stores.clock import Clock


@dataclass(slots=True)
class Run:
    """A run with all that belongs to it."""

    new: p.NewRun
    created_ms: int
    status: RunStatus
    ready: bool = True
    rev: int = 1
    fence: int = 0
    nonce: str | None = None
    owner: str | None = None
    lock_until_ms: int | None = None
    claim_len: int = 0
    journal: list[bytes] = field(default_factory=list)
    inbox: list[p.Message] = field(default_factory=list)
    consumed: set[int] = field(default_factory=set)
    facts: list[p.Fact] = field(default_factory=list)
    shown: bytes | None = None
    due_ms: int | None = None
    hears: str | None = None  # as RunRecord.awaits
    generation: int = 1
    input: bytes = b""
    cancel_requested: bool = False
    dossier: p.Dossier = p.CLEAN
    result: bytes | None = None
    error: bytes | None = None
    started_ms: int | None = None
    finished_ms: int | None = None

    @property
    def held(self) -> bool:
        return self.owner is not None

    def has_token(self, token: Token) -> bool:
        return (self.fence, self.nonce) == (token.fence, token.nonce)

    def unconsumed(self, after_seq: int = 0) -> list[p.Received]:
        numbered = enumerate(self.inbox, 1)
        return [
            p.Received(seq=seq, message_id=message.message_id, name=message.name, body=message.body)
            for seq, message in numbered
            if seq > after_seq and seq not in self.consumed
        ]

    def let_go(self) -> None:
        self.owner = self.lock_until_ms = None

    def token(self) -> Token:
        assert self.nonce is not None
        return Token(run_id=self.new.run_id, fence=self.fence, nonce=self.nonce)


@dataclass(slots=True)
class KeptEvent:
    """An event; `left` are the workflows that have still to take it, None while nobody wants it."""

    event: p.Event
    emitted_ms: int
    left: set[str] | None
    place: int

    @property
    def over_ms(self) -> int:
        return self.emitted_ms + self.event.ttl_ms


@dataclass(slots=True)
class World:
    """What the handles of one store share. `runs` is in order of submission."""

    clock: Clock
    runs: dict[str, Run] = field(default_factory=dict)
    keys: dict[str, tuple[str, str, int]] = field(default_factory=dict)
    workers: dict[str, tuple[p.WorkerRecord, int]] = field(default_factory=dict)
    schedules: dict[str, p.ScheduleRecord | int] = field(default_factory=dict)  # of a dropped one its last revision
    subscriptions: dict[tuple[str, str | None], frozenset[str]] = field(default_factory=dict)
    events: dict[str, KeptEvent] = field(default_factory=dict)
    events_told: int = 0
    listeners: list[MemoryListener] = field(default_factory=list)
    alive_ms: int = 0
    silence_ms: int = 0
    nonces: int = 0
    mutex: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.alive_ms = self.clock.mono_ms()

    def sign_of_life(self) -> None:
        now = self.clock.mono_ms()
        self.silence_ms = max(self.silence_ms, now - self.alive_ms)
        self.alive_ms = now

    def wake(self, *kinds: p.Wake) -> None:
        for listener in list(self.listeners):
            listener.ring(kinds)


class MemoryListener:
    """A subscription."""

    def __init__(self, world: World, on_wake: Callable[[p.Wake], None], kinds: frozenset[p.Wake]) -> None:
        self._world, self._on_wake, self._kinds = world, on_wake, kinds
        self._loop = asyncio.get_running_loop()
        self._open = True

    def ring(self, kinds: Iterable[p.Wake]) -> None:
        for kind in self._kinds.intersection(kinds):
            self._loop.call_soon_threadsafe(self._call, kind)

    def _call(self, kind: p.Wake) -> None:
        if self._open:
            self._on_wake(kind)

    def close(self) -> None:
        self._open = False
        with self._world.mutex:
            if self in self._world.listeners:
                self._world.listeners.remove(self)
