"""`Simulation`: the host of simulated runs from the side of a test.

Its methods are plain calls that return when what they ask for has happened. The work is done on a thread of the
simulation's own, so they can be called from a test without an event loop as well as from a coroutine.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from pyrula_runtime.client.workflow_client import WorkflowClient
from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.core.ids import run_id
from pyrula_runtime.core.rehearsing import Verdict
from pyrula_runtime.stores.protocol import Fact, RunRecord
from pyrula_runtime.testing.fakes import Fakes, StepAttempt, StepOrName
from pyrula_runtime.testing.fuse import Fuse
from pyrula_runtime.testing.host import SimulatedHost
from pyrula_runtime.testing.playing import Rest
from pyrula_runtime.testing.replaying import judged
from pyrula_runtime.testing.run import SimulatedRun
from pyrula_runtime.testing.stage import Script
from pyrula_runtime.testing.stuck import why_late, why_stuck
from pyrula_runtime.workflows.registry import AnyWorkflow
from pyrula_runtime.workflows.workflow import Workflow

R = TypeVar("R")
T = TypeVar("T")

START = datetime(2024, 1, 1, tzinfo=UTC)


class Simulation:
    """A store, a worker and a clock in memory; to be closed: `with Simulation() as simulation`.

    The clock stands still while anything can happen, and moves only when a test waits for something: `advance`, or the
    end of a run. Then it jumps to each thing that is due, at its time.
    """

    def __init__(
        self,
        *,
        workflows: Sequence[AnyWorkflow] = (),
        fakes: Mapping[Any, Any] | None = None,
        start: datetime = START,
        always_replay: bool = False,
        crash_at: int = 0,
        patience: float = 30.0,
    ) -> None:
        """Nothing runs yet.

        workflows: those whose schedules and events are at work; runs can be started of any workflow.
        fakes: what stands in for steps, by function or by name: a value, an exception to raise, a function to call
            with the step's arguments, or `attempts(...)`.
        start: what the clock shows at first.
        always_replay: whether runs are replayed from their journals after each commit, which finds code that does not
            repeat itself.
        crash_at: the place, counted from 1, at which the worker crashes and another takes over; see crash_everywhere.
        patience: seconds of real time that one call may take, for code that waits in a thread or on a socket, or for
            a workflow that never ends.
        """
        if start.tzinfo is None:
            raise UsageError(f"start={start!r} must have a time zone, as in datetime(2024, 1, 1, tzinfo=UTC)")
        self._attempts: list[StepAttempt] = []
        self._fakes = Fakes(fakes or {}, meets=self._attempts.append)
        self._fuse = Fuse(crash_at)
        self._patience_s = patience
        self._ids = 0
        script = Script(
            fakes=self._fakes,
            fuse=self._fuse,
            workflows=workflows,
            replay="always" if always_replay else "when-resumed",
        )
        self._host = SimulatedHost(script, start, patience)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End everything; what became of runs can still be read. Idempotent."""
        self._host.close()

    # time

    @property
    def now(self) -> datetime:
        """What the clock shows."""
        return self._host.now

    def advance(self, span: timedelta | float) -> None:
        """Let this much time pass (a number: seconds), and all that falls due until then happen, each at its time."""
        seconds = span.total_seconds() if isinstance(span, timedelta) else span
        if not 0 <= seconds < float("inf"):
            raise UsageError(f"time cannot be advanced by {span!r}: it must be 0 s or more")
        self._play(lambda: False, round(seconds * 1000))

    # runs

    @overload
    def start(self, workflow: Workflow[..., Any, R], input: Any = None, **options: Any) -> SimulatedRun[R]: ...

    @overload
    def start(self, workflow: str, input: Any = None, **options: Any) -> SimulatedRun[Any]: ...

    def start(self, workflow: Workflow[..., Any, Any] | str, input: Any = None, **options: Any) -> SimulatedRun[Any]:
        """Submit a run; returns when it can do nothing more at the present time.

        Options are those of `WorkflowClient.submit`, such as `idempotency_key` or `delay`.
        """
        if isinstance(workflow, Workflow):
            self._host.stage.serve(workflow)
        handle = self.do(lambda client: client.submit(workflow, input, **({"run_id": self._next_run_id()} | options)))
        return SimulatedRun(self, workflow, handle.run_id)

    @overload
    def run(self, workflow: Workflow[..., Any, R], input: Any = None, **options: Any) -> SimulatedRun[R]: ...

    @overload
    def run(self, workflow: str, input: Any = None, **options: Any) -> SimulatedRun[Any]: ...

    def run(self, workflow: Workflow[..., Any, Any] | str, input: Any = None, **options: Any) -> SimulatedRun[Any]:
        """Start a run and let time pass until it has ended, however it ends. Raises SimulationStuck if it cannot."""
        return self.start(workflow, input, **options).finish()

    def emit(self, name: str, payload: Any = None, *, id: str | None = None) -> None:
        """Tell an event; returns when what it begins can do nothing more at the present time."""
        chosen = id or self.next_id("event")
        self.do(lambda client: client.emit(name, payload, id=chosen))

    def do(self, act: Callable[[WorkflowClient], Coroutine[Any, Any, T]]) -> T:
        """Do something with a client of the simulation, and let happen what comes of it at the present time.

        For code under test that takes a client: `simulation.do(lambda client: take_order(client, order))`.
        """
        value = self._host.call(lambda: act(self._host.client))
        self._play(lambda: False, 0)
        return value

    def fake(self, step: StepOrName, fake: Any) -> None:
        """Let something stand in for a step from now on, as in `fakes=`."""
        self._fakes.put(step, fake)

    @property
    def attempts(self) -> Sequence[StepAttempt]:
        """Every call of a step's function, or of its fake, in the order in which they began, of all runs."""
        return tuple(self._attempts)

    @property
    def runs(self) -> list[SimulatedRun[Any]]:
        """All runs, in the order in which they were submitted."""
        return list(map(self._run_of, self._host.records()))

    # crashes

    @property
    def places(self) -> Sequence[str]:
        """The places by which the worker came and at which it could have crashed, in order."""
        return tuple(self._fuse.places)

    @property
    def crashes(self) -> int:
        """How many workers have crashed."""
        return self._host.stage.crashes

    def crash(self) -> None:
        """Crash the worker now; another one goes on with its runs."""
        self._host.crash()
        self._play(lambda: False, 0)

    # for the runs

    def play_until(self, is_content: Callable[[], bool]) -> None:
        """Let time pass until this is so; SimulationStuck if it will never be."""
        if self._play(is_content, None) is Rest.stuck:
            raise why_stuck(self._host.records(only_open=True), self._host.stage.waits_for)

    def record_of(self, run_id: str) -> RunRecord:
        """A run as it stands."""
        return self._host.record(run_id)

    def journal_of(self, run_id: str) -> Sequence[bytes]:
        """Its journal, as stored."""
        return self._host.journal(run_id)

    def facts_of(self, run_id: str) -> Sequence[Fact]:
        """What it has told, as stored."""
        return self._host.facts(run_id)

    def children_of(self, run_id: str) -> list[SimulatedRun[Any]]:
        """The runs that it has started."""
        records = self._host.records()
        return [self._run_of(each) for each in records if each.parent is not None and each.parent.run_id == run_id]

    def rehearsed(self, run_id: str) -> Verdict:
        """Whether its journal fits its code."""
        record, journal = self._host.record(run_id), self._host.journal(run_id)
        program = self._host.stage.program(record.workflow)
        return self._host.call(lambda: judged(record, journal, program))

    def next_id(self, kind: str) -> str:
        """An id that is the same when the test is run again."""
        self._ids += 1
        return f"{kind}-{self._ids}"

    def _run_of(self, record: RunRecord) -> SimulatedRun[Any]:
        return SimulatedRun(self, record.workflow, record.run_id)

    def _next_run_id(self) -> str:
        entropy = blake2b(self.next_id("run").encode(), digest_size=10).digest()
        return run_id(round(self.now.timestamp() * 1000), entropy)

    def _play(self, is_content: Callable[[], bool], for_ms: int | None) -> Rest:
        rest = self._host.play(is_content, for_ms)
        if rest is Rest.late:
            raise why_late(self._patience_s, self.now, self._host.stage.at_work(), self._host.stage.threads_at_work())
        return rest
