"""One run of a simulation, to the test that started it: what became of it, what it did, and what can be done to it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from pyrula_runtime.client import telling
from pyrula_runtime.client.outcome import outcome
from pyrula_runtime.client.submittable import Submittable
from pyrula_runtime.client.telling import RunEvent
from pyrula_runtime.core.errors import ErrorRecord
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.payloads import PLAIN
from pyrula_runtime.stores.protocol import RunRecord
from pyrula_runtime.testing.host import moment
from pyrula_runtime.testing.replaying import ReplayDiffers

if TYPE_CHECKING:
    from pyrula_runtime.testing.fakes import StepAttempt
    from pyrula_runtime.testing.simulation import Simulation

R = TypeVar("R")


class SimulatedRun(Generic[R]):
    """A run. What is read of it is of the present time, and can be read after the simulation's end."""

    def __init__(self, simulation: Simulation, workflow: Submittable[R] | str, run_id: str) -> None:
        self._simulation = simulation
        self._typed = None if isinstance(workflow, str) else workflow
        self.workflow = workflow if isinstance(workflow, str) else workflow.name
        self.run_id = run_id

    def __repr__(self) -> str:
        return f"<simulated run {self.run_id} of workflow {self.workflow!r}: {self.status}>"

    # what there is to see

    @property
    def status(self) -> RunStatus:
        """Where the run stands."""
        return self._record.status

    @property
    def submitted(self) -> datetime:
        """When it was submitted."""
        return moment(self._record.created_ms)

    @property
    def ended(self) -> datetime | None:
        """When it ended, if it has."""
        return None if self._record.finished_ms is None else moment(self._record.finished_ms)

    @property
    def error(self) -> ErrorRecord | None:
        """What it failed with, or was paused for."""
        return None if self._record.error is None else PLAIN.load_error(self._record.error)

    @property
    def attempts(self) -> Sequence[StepAttempt]:
        """Every call of a step's function, or of its fake, in the order in which they began."""
        return [each for each in self._simulation.attempts if each.run_id == self.run_id]

    @property
    def steps(self) -> list[str]:
        """The names of the steps that were attempted, one for each attempt."""
        return [each.step for each in self.attempts]

    @property
    def journal(self) -> list[dict[str, Any]]:
        """The journal's entries, as `describe` has them."""
        return cast("list[dict[str, Any]]", self.describe()["journal"])

    @property
    def shown(self) -> Any:
        """What its code last set with `ctx.set_status`."""
        return None if self._record.shown is None else PLAIN.load_json(self._record.shown)

    @property
    def events(self) -> list[RunEvent]:
        """What it has told, in order, as clients read it."""
        return [telling.event_of(each, PLAIN) for each in self._simulation.facts_of(self.run_id)]

    @property
    def children(self) -> list[SimulatedRun[Any]]:
        """The runs that it has started as children, in order."""
        return self._simulation.children_of(self.run_id)

    def describe(self) -> dict[str, Any]:
        """The run in full, as clients and `pyrula runs show --json` have it."""
        return telling.description(self._record, self._simulation.journal_of(self.run_id), PLAIN)

    @property
    def _record(self) -> RunRecord:
        return self._simulation.record_of(self.run_id)

    # what can be done

    def result(self) -> R:
        """Let time pass until the run has ended: its value, typed as the workflow says.

        Raises RunFailed, RunCancelled or RunQuarantined with the stored error, and SimulationStuck if the run cannot
        end: what it waits for will not come by itself.
        """
        return cast(R, outcome(self.finish()._record, self._typed, PLAIN))

    def finish(self) -> SimulatedRun[R]:
        """Let time pass until the run has ended, however it ends. Raises SimulationStuck if it cannot."""
        if not self.status.is_terminal:
            self._simulation.play_until(lambda: self.status.is_terminal)
        return self

    def check_replay(self) -> None:
        """Replay the journal through the workflow's code; raises ReplayDiffers if they do not fit, and says where.

        Nothing is performed. Code that does not repeat itself, with the time or with chance of its own, is found so.
        """
        judged = self._simulation.rehearsed(self.run_id)
        if not judged.fits:
            raise ReplayDiffers(
                f"run {self.run_id} of workflow {self.workflow!r} is replayed otherwise: {judged.sentence}"
            )

    def cancel(self) -> None:
        """Ask the run to unwind; returns when it can do nothing more at the present time."""
        self._simulation.do(lambda client: client.cancel(self.run_id))

    def pause(self) -> None:
        """Take the run from its worker and keep it until it is resumed."""
        self._simulation.do(lambda client: client.pause(self.run_id))

    def resume(self) -> None:
        """Let the paused run go on; returns when it can do nothing more at the present time."""
        self._simulation.do(lambda client: client.resume(self.run_id))

    def requeue(self) -> None:
        """Send the failed or paused run on, as after a fix; returns when it can do nothing more at the present time."""
        self._simulation.do(lambda client: client.requeue(self.run_id))

    def signal(self, name: str, payload: Any = None, *, message_id: str | None = None) -> None:
        """Send a signal; returns when the run can do nothing more at the present time.

        The run keeps what it does not wait for yet. The same `message_id` is delivered once.
        """
        chosen = message_id or self._simulation.next_id("signal")
        self._simulation.do(lambda client: client.signal(self.run_id, name, payload, message_id=chosen))
