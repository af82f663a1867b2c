"""One run, to whoever submitted it or knows its id; nothing is read before something is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from pyrula_runtime.core.status import RunStatus

if TYPE_CHECKING:
    from pyrula_runtime.client.submittable import Submittable
    from pyrula_runtime.client.telling import RunEvent
    from pyrula_runtime.client.workflow_client import WorkflowClient

R = TypeVar("R")


class RunHandle(Generic[R]):
    """A run of a store. Handles of one run are equal."""

    def __init__(self, client: WorkflowClient, workflow: Submittable[R] | str, run_id: str) -> None:
        self._client = client
        self._typed = None if isinstance(workflow, str) else workflow
        self.workflow = workflow if isinstance(workflow, str) else workflow.name
        self.run_id = run_id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunHandle) and (self.workflow, self.run_id) == (other.workflow, other.run_id)

    def __hash__(self) -> int:
        return hash((self.workflow, self.run_id))

    def __repr__(self) -> str:
        return f"<run {self.run_id} of workflow {self.workflow!r}>"

    async def status(self) -> RunStatus:
        """Where the run stands."""
        return await self._client.status(self.run_id)

    async def result(self, timeout: float | None = None) -> R:
        """Wait for the run's end: its value, typed if the workflow is known to this process.

        Raises RunFailed, RunCancelled or RunQuarantined with the stored error, TimeoutError after `timeout` seconds;
        a `timeout` of 0 looks without waiting.
        """
        return cast(R, await self._client.result(self.run_id, timeout, of=self._typed))

    async def signal(self, name: str, payload: Any = None, *, message_id: str | None = None) -> None:
        """Send a signal; the run keeps it until it asks for it. The same `message_id` is delivered once."""
        await self._client.signal(self.run_id, name, payload, message_id=message_id)

    async def cancel(self) -> None:
        """Ask the run to unwind."""
        await self._client.cancel(self.run_id)

    async def pause(self) -> None:
        """Take the run from its worker and keep it until it is resumed."""
        await self._client.pause(self.run_id)

    async def resume(self) -> None:
        """Let the paused run go on."""
        await self._client.resume(self.run_id)

    async def events(self, after: int = 0, limit: int = 1000) -> tuple[RunEvent, ...]:
        """What the run has told since the event `after`, in order, at most `limit`; see RunEvent."""
        return await self._client.events(self.run_id, after, limit)

    async def describe(self) -> dict[str, Any]:
        """The run in full, with its journal."""
        return await self._client.describe(self.run_id)
