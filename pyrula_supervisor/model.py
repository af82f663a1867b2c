"""The whole of what a supervisor knows, as frozen values: the reducer makes a new one of it for every event.

All times in it (`*_ms`) are on the supervised clock: the monotonic clock less the pauses of the supervisor itself
(`State.at`). When the supervisor, or the host, was asleep, no child has had the time that passed on the wall, so
stopping this clock pushes every deadline out at once, and nothing can be forgotten.

A slot is a place for one worker. Two children may share it for a while, when a new one replaces an old one: then the
old one is `outdated` and goes on serving until the new one is ready. One whose lane is stuck is outdated, too, but it
cannot leave before its lane goes round; whoever comes beside it is called a surge until then. Clerk, templates and
cells have no slot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pyrula_runtime.wire import Blocked, Finding, Queue, Report, Role, Stage
from pyrula_supervisor.events import LaneSeen
from pyrula_supervisor.ladder import Rung
from pyrula_supervisor.options import Policy
from pyrula_supervisor.tables import COMING, LEAVING, SERVING, ChildState, Phase, ReloadPhase

NO_SLOT = -1
NEVER = 1 << 62  # a time that does not come, in ms
SLOTTED = frozenset({Role.worker, Role.surge})
LANED = SLOTTED | {Role.cell}  # those that execute turns


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """A child is to be killed for what its code did: what will be told of it, and when it is too late for a last look.

    `pardonable`: not if its lane goes on before.
    """

    finding: Finding
    why: str  # in words that go on from "killed by us because"
    at_ms: int
    pardonable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """One process, from when it is asked for until it is reaped."""

    incarnation: str
    role: Role
    slot: int
    generation: int
    by_template: str = ""
    state: ChildState = ChildState.asked
    pid: int = 0
    asked_ms: int
    ready_ms: int = NEVER
    deadline_ms: int = NEVER  # when its state has lasted too long
    cause: str = ""  # why it is to end, in words; empty while it is to stay
    planned: bool = False  # its end is our decision and no fault of its own
    outdated: str = ""  # why it is to leave as soon as another is ready
    dumped: bool = False  # its stack was asked for before it is killed
    nudge_ms: int = NEVER  # when SIGTERM follows a Drain that it may not have read
    report: Report | None = None
    reported_ms: int = NEVER
    blocked: Blocked | None = None
    blocked_ms: int = NEVER
    announced: bool = False  # whether people were told of this block
    placed: bool = False  # with the line of it
    freed_ms: int = -NEVER  # when its last block was over
    seen: LaneSeen | None = None  # its lane as seen from outside, while that stands still
    mute: bool = False  # no thread of it can speak
    silent_ms: int = 0  # for how long nothing has been seen of its watchdog, if for long, whatever the reason
    rung: Rung = Rung.ground  # how far its block has led
    surged: bool = False  # its lane was stuck so long that another was started beside it
    sentence: Sentence | None = None
    rss_bytes: int = 0
    limits_ms: Mapping[str, int] = field(default_factory=dict)  # how long code of a workflow may block, where longer
    note: str = ""  # what it said of itself when it became ready

    @property
    def coming(self) -> bool:
        """Whether it has yet to become ready."""
        return self.state in COMING

    @property
    def serving(self) -> bool:
        """Whether it is ready for work, blocked or not."""
        return self.state in SERVING

    @property
    def leaving(self) -> bool:
        """Whether it is on its way out."""
        return self.state in LEAVING

    @property
    def works(self) -> bool:
        """Whether it executes turns, or may."""
        return self.role in LANED and (self.serving or self.state is ChildState.draining)

    @property
    def stuck(self) -> bool:
        """Whether it is of no use as long as its lane stands still."""
        return self.rung >= Rung.replaced

    @property
    def failing(self) -> bool:
        """Whether it was killed for a fault of its own; until it is reaped its place is not free."""
        return self.state is ChildState.killed and not self.planned

    @property
    def was_ready(self) -> bool:
        """Whether it ever said that it is ready."""
        return self.ready_ms != NEVER

    @property
    def title(self) -> str:
        """How it is called in logs: `worker 2 (pid 4711)`."""
        place = "" if self.slot == NO_SLOT else f" {self.slot}"
        return f"{self.role}{place} (pid {self.pid})" if self.pid else f"{self.role}{place}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How soon something that keeps failing may be tried again."""

    failures: int = 0  # in a row
    retry_ms: int = -NEVER  # not before


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """The numbered place of one worker, and what became of those that had it."""

    number: int
    pace: Pace = Pace()
    growth: Pace = Pace()  # of workers that are replaced for their memory
    restarts: int = 0  # ends that nobody asked for
    last_exit: str = ""  # in words


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """What was on disk at one time, and how its workers are made."""

    number: int
    forks: bool  # by a template
    reason: str = ""  # why not, or why so


@dataclass(frozen=True, slots=True, kw_only=True)
class Burial:
    """A dead incarnation the clerk was, or is to be, told of."""

    told_ms: int = NEVER
    looked: bool = False  # the clerk has looked once; a second look follows
    clean: bool = False  # it drained and exited 0, so no claim of its can still be on the wire
    slot: int = NO_SLOT  # whose failure its end was taken for
    finding: Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the clerk was told last of a mute or silent worker."""

    stage: Stage
    keep: str = ""
    told_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reload:
    """A reload under way."""

    phase: ReloadPhase
    old: Generation
    new: Generation
    askers: tuple[int, ...]
    canary: str = ""  # its incarnation
    settled_ms: int = NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Somebody waits for something of one slot: a restart or a stack."""

    slot: int
    asker: int
    incarnation: str = ""  # of the child it is about, once that is known
    deadline_ms: int = NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What the supervisor knows."""

    policy: Policy
    started_ms: int
    generation: Generation
    procs: int  # how many slots are wanted
    phase: Phase = Phase.starting
    paused_ms: int = 0  # how long the supervisor itself was asleep, in all
    slept: bool = False  # so its last tick said
    slots: tuple[Slot, ...] = ()  # the wanted ones, by number
    children: Mapping[str, Child] = field(default_factory=dict)  # by incarnation, in order of birth
    generations: int = 1  # how many have been begun
    template_pace: Pace = Pace()
    clerk_pace: Pace = Pace()
    cell_pace: Pace = Pace()
    burials: Mapping[str, Burial] = field(default_factory=dict)  # by incarnation, in order of death
    stand_ins: Mapping[str, Standing] = field(default_factory=dict)  # by incarnation
    suspects: int = 0  # that wait for a cell, as far as is known
    suspects_ms: int = -NEVER  # since when that is known
    ever_ready: bool = False  # a worker has been
    failed_starts: int = 0  # before one was
    reload: Reload | None = None
    queued_reload: tuple[int, ...] | None = None  # who asked for the next one
    restarts: tuple[Question, ...] = ()
    dumps: tuple[Question, ...] = ()
    queue: Queue | None = None  # what the clerk said last of the store
    queue_ms: int = NEVER
    store_ms: int = NEVER  # since when the store is as it is
    signals: int = 0  # how many asked to stop
    stopped_ms: int = NEVER  # when draining or killing began
    exit_code: int = 0
    status_text: str = ""  # what the service manager was told last
    status_ms: int = -NEVER
    extended_ms: int = -NEVER

    def at(self, now_ms: int) -> int:
        """A moment of the monotonic clock on the supervised clock."""
        return now_ms - self.paused_ms

    @property
    def stopping(self) -> bool:
        """Whether nothing new may be started."""
        return self.phase not in (Phase.starting, Phase.running)

    @property
    def canary(self) -> str:
        """The worker that has yet to prove a new generation: it holds no slot until then."""
        unproved = self.reload and self.reload.phase is not ReloadPhase.rolling
        return self.reload.canary if self.reload and unproved else ""

    @property
    def workers(self) -> Iterator[Child]:
        """The worker processes of slots that are not gone, surges among them."""
        return (child for child in self.children.values() if child.role in SLOTTED)

    @property
    def cells(self) -> Iterator[Child]:
        """The cells that are not gone."""
        return (child for child in self.children.values() if child.role is Role.cell)

    @property
    def ready_workers(self) -> int:
        """How many wanted slots have a worker that serves and is not stuck."""
        useful = (child for child in self.workers if child.serving and not child.stuck)
        return len({child.slot for child in useful if child.slot < self.procs})

    @property
    def extras(self) -> int:
        """How many worker processes there are beyond one for each slot that has one; a canary always is.

        Those that are or were stuck do not count: nobody waits for their end.
        """
        workers = [child for child in self.workers if not child.surged]
        held = {child.slot for child in workers if not child.leaving and child.incarnation != self.canary}
        return len(workers) - sum(1 for slot in held if slot < self.procs)

    def forks_of(self, template: str) -> Iterator[Child]:
        """The processes that a template was asked for."""
        return (child for child in self.children.values() if child.by_template == template)

    def of_slot(self, number: int) -> Iterator[Child]:
        """The workers that share a slot."""
        return (child for child in self.workers if child.slot == number)

    def by_slot(self) -> dict[int, list[Child]]:
        """The workers of every wanted slot."""
        found: dict[int, list[Child]] = {slot.number: [] for slot in self.slots}
        for child in self.workers:
            if child.slot in found:
                found[child.slot].append(child)
        return found

    def templates(self, generation: int) -> Iterator[Child]:
        """The templates of a generation: one, or one more on its way out."""
        return (
            child for child in self.children.values() if child.role is Role.template and child.generation == generation
        )

    @property
    def clerk(self) -> Child | None:
        """The clerk, unless it is gone or on its way out."""
        clerks = (child for child in self.children.values() if child.role is Role.clerk and not child.leaving)
        return next(clerks, None)
