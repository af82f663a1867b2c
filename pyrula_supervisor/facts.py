"""What the parent knows beside the reducer's state: identity, weights, rates, incidents, and totals of the gone.

The state decides; these facts are only told, so none of them may ever change a decision. They are collected from the
events and actions that pass through the shell, and handed to `status` as one frozen value.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from pyrula_runtime.wire import Judged, Report, Role
from pyrula_supervisor.actions import BlockOver, Incident
from pyrula_supervisor.events import Event, Exited, Said
from pyrula_supervisor.exits import was_asked, words
from pyrula_supervisor.model import Child, State
from pyrula_supervisor.weights import Scales, Weight

MAX_INCIDENTS = 50
SUPERVISOR = "supervisor"  # its key among the incarnations
# over how long turns are counted to say how many a worker does in a second
_RATE_MS = 10_000

Place = tuple[Role, int]  # role and slot
Kind = tuple[str, str]  # of incidents: kind and verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who this supervisor is; nothing of it changes."""

    name: str
    pid: int
    version: str
    health_url: str = ""
    store_url: str = ""  # without secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """An incident and when it was (wall clock)."""

    at_ms: int
    incident: Incident


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Blocks that are over: how many, how long in all, and how many were at most as long as each bound (s)."""

    BOUNDS_S: ClassVar[tuple[float, ...]] = (2.5, 5, 10, 30, 60, 120, 300)
    count: int = 0
    total_s: float = 0.0
    at_most: tuple[int, ...] = (0,) * len(BOUNDS_S)

    def and_one(self, for_s: float) -> Blocks:
        """These and one more."""
        counts = zip(self.BOUNDS_S, self.at_most, strict=True)
        at_most = tuple(count + (for_s <= bound) for bound, count in counts)
        return Blocks(count=self.count + 1, total_s=self.total_s + for_s, at_most=at_most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All of it at one moment."""

    identity: Identity
    weights: Mapping[str, Weight] = field(default_factory=dict)  # by incarnation, and SUPERVISOR
    rates: Mapping[str, float] = field(default_factory=dict)  # turns per second, by incarnation
    incidents: tuple[Noted, ...] = ()  # oldest first
    incident_counts: Mapping[Kind, int] = field(default_factory=dict)  # since the start
    charges: Mapping[str, int] = field(default_factory=dict)  # since the start, by cause
    blocks: Blocks = Blocks()
    turns_of_the_gone: Mapping[Place, int] = field(default_factory=dict)
    clerk_restarts: int = 0
    clerk_last_exit: str = ""


@dataclass(slots=True, kw_only=True)
class _Tally:
    """The turns of one living child, as it reported them: (monotonic ms, turns done) of the last seconds."""

    place: Place
    samples: deque[tuple[int, int]] = field(default_factory=deque)

    def add(self, now_ms: int, turns_done: int) -> None:
        self.samples.append((now_ms, turns_done))
        while self.samples[0][0] < now_ms - _RATE_MS:
            self.samples.popleft()

    def rate(self, now_ms: int) -> float:
        """Turns per second up to now: one that reports no more gets slower and comes to rest."""
        first_ms, first = self.samples[0]
        if now_ms <= first_ms or self.samples[-1][0] < now_ms - _RATE_MS:
            return 0.0
        return round((self.samples[-1][1] - first) * 1000 / (now_ms - first_ms), 2)

    @property
    def turns_done(self) -> int:
        return self.samples[-1][1]


def place_of(child: Child) -> Place:
    """Where a child's work is counted: that of a surge in its slot, which may become its own."""
    return (Role.worker if child.role is Role.surge else child.role), child.slot


class Observations:
    """Collects the facts. Everything here is quick: it is done between two events of the parent."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._scales = Scales()
        self._tallies: dict[str, _Tally] = {}
        self._incidents: deque[Noted] = deque(maxlen=MAX_INCIDENTS)
        self._counts: Counter[Kind] = Counter()
        self._charges: Counter[str] = Counter()
        self._blocks = Blocks()
        self._gone: Counter[Place] = Counter()
        self._clerk_restarts = 0
        self._clerk_last_exit = ""

    def happened(self, event: Event, before: State) -> None:
        """An event came; `before` is the state that the reducer was given with it."""
        child = before.children.get(getattr(event, "incarnation", ""))
        if child is None:
            return
        if isinstance(event, Said) and isinstance(event.message, Report):
            tally = self._tallies.setdefault(child.incarnation, _Tally(place=place_of(child)))
            tally.add(event.now_ms, event.message.turns_done)
        elif isinstance(event, Said) and isinstance(event.message, Judged):
            self._charges[event.message.cause] += event.message.charged
        elif isinstance(event, Exited):
            self._left(child, event.status)

    def _left(self, child: Child, status: int) -> None:
        tally = self._tallies.pop(child.incarnation, None)
        if tally is not None:
            self._gone[tally.place] += tally.turns_done
        if child.role is Role.clerk:
            self._clerk_last_exit = words(status)
            self._clerk_restarts += not (child.planned or was_asked(status))

    def noted(self, incident: Incident, wall_ms: int) -> None:
        """Something happened that is to be remembered."""
        self._incidents.append(Noted(at_ms=wall_ms, incident=incident))
        self._counts[incident.kind, incident.verdict] += 1

    def block_over(self, over: BlockOver) -> None:
        """A lane that stood still does so no more."""
        self._blocks = self._blocks.and_one(over.for_ms / 1000)

    def weigh(self, children: Iterable[Child], now_ms: int) -> dict[str, int]:
        """Read what the processes take: resident bytes by incarnation, of those that could be read."""
        pids = {child.incarnation: child.pid for child in children if child.pid}
        self._scales.weigh({SUPERVISOR: self._identity.pid, **pids}, now_ms)
        weights = self._scales.weights
        return {name: rss for name in pids if (rss := weights[name].rss_bytes) is not None}

    def facts(self, now_ms: int) -> Facts:
        """What is known now."""
        return Facts(
            identity=self._identity,
            weights=self._scales.weights,
            rates={name: tally.rate(now_ms) for name, tally in self._tallies.items()},
            incidents=tuple(self._incidents),
            incident_counts=dict(self._counts),
            charges=dict(self._charges),
            blocks=self._blocks,
            turns_of_the_gone=dict(self._gone),
            clerk_restarts=self._clerk_restarts,
            clerk_last_exit=self._clerk_last_exit,
        )
