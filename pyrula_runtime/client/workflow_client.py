"""The asynchronous client: what can be asked of a store about runs, one method each."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from pyrula_runtime.client import emitting, listing, operating, submitting, telling
from pyrula_runtime.client.bulk import Bulk, Deed, chosen
from pyrula_runtime.client.door import Door
from pyrula_runtime.client.emitting import Emitted, WaitingEvent
from pyrula_runtime.client.endings import Endings
from pyrula_runtime.client.handle import RunHandle
from pyrula_runtime.client.outcome import outcome
from pyrula_runtime.client.schedules import Schedules
from pyrula_runtime.client.submittable import Submittable, known
from pyrula_runtime.client.telling import RunEvent, RunSummary
from pyrula_runtime.core.acts import MOST, Act, Wish, act_of, choice
from pyrula_runtime.core.errors import IllegalTransition, RunNotFound, StoreUnavailable, UsageError
from pyrula_runtime.core.ids import checked_name, checked_run_id
from pyrula_runtime.core.status import DELIVERY, RunStatus
from pyrula_runtime.core.why import SILENT_AFTER_MS, nobody_serves
from pyrula_runtime.engine.payloads import Codec, Payloads
from pyrula_runtime.options import DAY_S, IDEMPOTENCY_TTL
from pyrula_runtime.stores.protocol import Delivery, Message, RunQuery, RunRecord, Store

log = logging.getLogger("pyrula.client")

R = TypeVar("R")

Statuses = RunStatus | str | Iterable[RunStatus | str]


class WorkflowClient:
    """A client of one store, which is opened at its first use and closed with it. For use on one event loop."""

    def __init__(self, store: Store, *, idempotency_ttl: float = DAY_S, codec: Codec | None = None) -> None:
        """A client of `store`; an idempotency key finds the run it first submitted for `idempotency_ttl` seconds.

        `codec` is what inputs, results, outcomes, errors and signals pass through; the workers need the same one.
        """
        given: object = store
        if isinstance(given, str):
            raise UsageError(f"WorkflowClient takes a store: WorkflowClient(open_store({given!r}))")
        if (fault := IDEMPOTENCY_TTL.fault(idempotency_ttl)) is not None:
            raise UsageError(fault)
        self._idempotency_ttl_ms = round(idempotency_ttl * 1000)
        self._door = Door(store, Payloads(codec))
        self._endings = Endings()
        self._looked_for: set[str] = set()

    async def __aenter__(self) -> Self:
        await self._door.store()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the client and its store. Idempotent; whoever still waits for a result gets a UsageError."""
        await self._door.close()
        self._endings.look_again()

    # submitting

    @overload
    async def submit(
        self,
        workflow: Submittable[R],
        input: Any = None,
        *,
        idempotency_key: str | None = None,
        run_id: str | None = None,
        priority: int = 0,
        delay: float | timedelta | None = None,
        start_at: datetime | None = None,
    ) -> RunHandle[R]: ...

    @overload
    async def submit(
        self,
        workflow: str,
        input: Any = None,
        *,
        idempotency_key: str | None = None,
        run_id: str | None = None,
        priority: int = 0,
        delay: float | timedelta | None = None,
        start_at: datetime | None = None,
    ) -> RunHandle[Any]: ...

    async def submit(
        self,
        workflow: Submittable[Any] | str,
        input: Any = None,
        *,
        idempotency_key: str | None = None,
        run_id: str | None = None,
        priority: int = 0,
        delay: float | timedelta | None = None,
        start_at: datetime | None = None,
    ) -> RunHandle[Any]:
        """Create a run and return at once; a worker takes it.

        By function the input is checked here and the run is pinned to the workflow's version; by name neither. The
        same `idempotency_key` (for `idempotency_ttl`) or `run_id` with the same input gives the first run back; with
        another input it raises IdempotencyConflict.

        Of the runs that wait for a worker those of a higher `priority` (-1000 to 1000) are taken first. With a `delay`
        (seconds or a timedelta) or a `start_at` (a datetime with a time zone) no worker takes it before that.
        """
        new = submitting.new_run(workflow, input, idempotency_key, run_id, self._idempotency_ttl_ms)
        new = submitting.placed(new, priority, delay, start_at, self._now_ms())
        new = submitting.sealed_run(new, self._door.payloads)
        store = await self._door.store()
        new = submitting.with_id(new, store)
        if isinstance(workflow, str):
            with contextlib.suppress(StoreUnavailable):  # a hint is no reason to fail a submit
                await self._tell_if_unserved(store, workflow)
        try:
            submitted = await store.submit(new)
        except StoreUnavailable as error:
            again = f"run_id={new.run_id!r}" if idempotency_key is None else "the same idempotency key"
            raise StoreUnavailable(
                f"{error}; whether run {new.run_id} was created is unknown: submit again with {again}, which is safe"
            ) from error
        return RunHandle(self, workflow, submitting.accepted_id(new, submitted))

    async def emit(self, name: str, payload: Any = None, *, id: str | None = None) -> Emitted:
        """Tell an event: each workflow that it starts begins one run, with the payload as its input.

        An event of the same name and `id` is told once (for 7 days). One that no workflow wants is kept until one does.
        """
        return await emitting.emit(self._door, name, payload, id)

    async def waiting_events(self, limit: int = 100) -> tuple[WaitingEvent, ...]:
        """Events that have begun no run yet, oldest first: nobody wants them, or nobody is there who could tell."""
        return await emitting.waiting_events(self._door, listing.checked_limit(limit, listing.LONGEST_PAGE))

    @property
    def schedules(self) -> Schedules:
        """The schedules of this store, and what an operator can do with them."""
        return Schedules(self, self._door)

    async def _tell_if_unserved(self, store: Store, name: str) -> None:
        """Warn, once, if neither this process nor any worker knows the name: a typo, or a worker that comes later."""
        if name in self._looked_for or known(name) is not None:
            return
        self._looked_for.add(name)
        live = [worker for worker in await store.workers() if worker.age_ms < SILENT_AFTER_MS]
        served = {each.workflow for worker in live for each in worker.serves}
        if name not in served:
            log.warning("%s Its runs wait until one serves it.", nobody_serves(name, served))

    # looking

    @overload
    def handle(self, workflow: Submittable[R], run_id: str) -> RunHandle[R]: ...

    @overload
    def handle(self, workflow: str, run_id: str) -> RunHandle[Any]: ...

    def handle(self, workflow: Submittable[Any] | str, run_id: str) -> RunHandle[Any]:
        """The handle of a run that was submitted before; reads nothing."""
        submitting.name_of(workflow)
        return RunHandle(self, workflow, checked_run_id(run_id))

    @property
    def payloads(self) -> Payloads:
        """How this client reads what users put into the store."""
        return self._door.payloads

    async def status(self, run_id: str) -> RunStatus:
        """Where a run stands."""
        return (await self._door.record(run_id)).status

    async def list(
        self,
        workflow: Submittable[Any] | str | None = None,
        status: Statuses | None = None,
        limit: int = 100,
        before: str | None = None,
        *,
        schedule: str | None = None,
        suspects: bool = False,
    ) -> tuple[RunSummary, ...]:
        """Runs, newest first: of one workflow or all, in these statuses or any; `before` is the last id of a page.

        With `schedule` only those that this schedule began. With `suspects` only those that are tried again alone;
        every run in these statuses is looked at for that.
        """
        query = RunQuery(
            workflow=None if workflow is None else submitting.name_of(workflow),
            statuses=None if status is None else _statuses(status),
            limit=listing.checked_limit(limit, listing.LONGEST_PAGE),
            before=before,
            schedule_id=schedule,
        )
        store = await self._door.store()
        if suspects:
            return await listing.suspects(store, query, self._door.payloads)
        return tuple(telling.summary(each, self._door.payloads) for each in await store.find(query))

    async def describe(self, run_id: str) -> dict[str, Any]:
        """A run in full: input, result, error, times and the decoded journal, as plain JSON values."""
        record = await self._door.record(run_id)
        return telling.description(record, await self._door.journal(record), self._door.payloads)

    async def events(self, run_id: str, after: int = 0, limit: int = 1000) -> tuple[RunEvent, ...]:
        """What a run has told since the event `after`, in order, at most `limit`; see RunEvent."""
        store = await self._door.store()
        facts = await store.read_facts(run_id, _checked_id(after), listing.checked_limit(limit, listing.LONGEST_PAGE))
        if not facts:
            await self._door.record(run_id)  # there is such a run
        return tuple(telling.event_of(each, self._door.payloads) for each in facts)

    async def result(self, run_id: str, timeout: float | None = None, *, of: Submittable[Any] | None = None) -> Any:
        """Wait for a run's end; see RunHandle.result. `of` is its workflow, if the name is not to be looked up."""
        record = await self._door.record(run_id)
        if not record.status.is_terminal:
            try:
                async with asyncio.timeout(timeout):
                    record = await self._ended(run_id)
            except TimeoutError as error:
                raise TimeoutError(f"run {run_id} has not ended within {timeout} s; it goes on") from error
        return outcome(record, of, self._door.payloads)

    async def _ended(self, run_id: str) -> RunRecord:
        with self._endings.watched(await self._door.store()) as news:
            while True:
                news.clear()
                record = await self._door.record(run_id)
                if record.status.is_terminal:
                    return record
                await news.wait()

    # acting

    async def signal(self, run_id: str, name: str, payload: Any = None, *, message_id: str | None = None) -> None:
        """Send a signal to a run; see RunHandle.signal. IllegalTransition if the run has ended."""
        what = f"the payload of signal {checked_name(name, 'signal')!r}"
        message = Message(
            run_id=run_id,
            message_id=message_id or uuid.uuid4().hex,
            name=name,
            body=submitting.sealed(submitting.encode(payload, what), what, self._door.payloads),
        )
        store = await self._door.store()
        delivery = await store.deliver(message, DELIVERY)
        if delivery is Delivery.unknown:
            raise RunNotFound(run_id)
        if delivery is Delivery.ended:
            raise IllegalTransition(f"run {run_id} has ended: signal {name!r} was not kept")

    async def cancel(self, run_id: str) -> None:
        """Ask a run to unwind; one whose code never began is cancelled at once. IllegalTransition if it has ended."""
        await operating.cancel(self._door, run_id)

    async def requeue(self, run_id: str) -> None:
        """Send a failed, quarantined or paused run on after a fix. IllegalTransition for any other."""
        await operating.requeue(self._door, run_id, self._now_ms())

    async def pause(self, run_id: str) -> None:
        """Take a run from its worker and keep it until it is resumed; a step under way is performed again then.

        IllegalTransition if it has ended.
        """
        await operating.pause(self._door, run_id)

    async def resume(self, run_id: str) -> None:
        """Let a paused run go on. IllegalTransition if it has ended."""
        await operating.resume(self._door, run_id, self._now_ms())

    async def fork(self, run_id: str, step: str | None = None, *, version: str | None = None) -> RunHandle[Any]:
        """Begin a new run with what this one recorded before a step, and return its handle; this one stays as it is.

        `step` is an operation's id, as `describe` shows it, or its name if that is unique; unset, the step whose
        failure ended the run, or the end of its journal. The new run is pinned as this one is, or to `version`. Its
        steps have idempotency keys of their own.
        """
        fork_id = await Deed(act=Act.fork, step=step, version=version).do(self._door, run_id, self._now_ms())
        assert fork_id is not None
        return RunHandle(self, (await self._door.record(fork_id)).workflow, fork_id)

    async def choose(
        self,
        act: Act | str,
        workflow: Submittable[Any] | str | None = None,
        status: Statuses | None = None,
        *,
        cause: str | None = None,
        older_than: float | None = None,
        newer_than: float | None = None,
        limit: int | None = None,
    ) -> tuple[RunSummary, ...]:
        """The runs that can be cancelled, paused, resumed, requeued or forked (`act`), oldest first.

        `cause` is what a run was quarantined for, such as "loop_blocked". `older_than` and `newer_than` say how many
        seconds ago a run ended; one that has not ended, was submitted. `limit` takes the oldest of them. Nothing is
        changed: that is for `bulk`.
        """
        wanted = Wish(
            statuses=None if status is None else _statuses(status),
            cause=cause,
            older_than_s=older_than,
            newer_than_s=newer_than,
        )
        of = choice(act_of(act), wanted, self._now_ms())
        name = None if workflow is None else submitting.name_of(workflow)
        most = MOST if limit is None else listing.checked_limit(limit, MOST)
        return await chosen(self._door, name, of, most)

    def bulk(
        self,
        act: Act | str,
        runs: Iterable[str | RunSummary],
        *,
        rate: float | None = None,
        step: str | None = None,
        version: str | None = None,
    ) -> Bulk:
        """Do it to runs, `rate` a second, evenly spaced: `async for result in client.bulk("requeue", runs, rate=5)`.

        `act` is "cancel", "pause", "resume", "requeue" or "fork"; `step` and `version` are for forks. Runs are ids, or
        what `choose` gave; of these one that has changed since then, other than by going on, is left alone. A run that
        refuses does not keep the others: its result says why.
        """
        deed = Deed(act=act_of(act), step=step, version=version)
        return Bulk(self._door, deed, runs, rate, now_ms=self._now_ms)

    def _now_ms(self) -> int:
        """What time it is to this client: a simulation's has a clock of its own."""
        return time.time_ns() // 1_000_000


def _checked_id(after: object) -> int:
    if isinstance(after, bool) or not isinstance(after, int) or not 0 <= after < 2**63:
        raise UsageError(f"after={after!r} must be the id of an event, or 0 for all of them")
    return after


def _statuses(given: Statuses) -> frozenset[RunStatus]:
    try:
        return frozenset(map(RunStatus, [given] if isinstance(given, str) else given))
    except ValueError as error:
        raise UsageError(f"{error}; a status is one of {', '.join(RunStatus)}") from error
