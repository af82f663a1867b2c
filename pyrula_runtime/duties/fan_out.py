"""Events become runs: each worker takes those of the workflows it has the code of, since a filter is code.

An event is taken once for each workflow, by whichever worker is first (see stores.protocol, `settle_event`), and the id
of its run follows from the two. What cannot be taken is left where it is, to be seen and to be taken by other code: an
event that only another version of the workflow knows, one whose filter raises, one whose payload cannot be decoded.
There may be many of these. So a round goes on behind the last event that was looked at, and only now and then it begins
at the oldest, to try what was left once more.

Filters are the user's code. They run on a thread of their own, one at a time; one that does not come back in time is
left alone, and its event too.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Sequence

import orjson

from pyrula_runtime.core.entries import Json
from pyrula_runtime.core.errors import CodecFailed
from pyrula_runtime.core.ids import event_id_of, input_digest
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.payloads import Payloads
from pyrula_runtime.engine.program import Program, Trigger
from pyrula_runtime.engine.threads import Threads
from pyrula_runtime.stores.protocol import Event, NewRun, PendingEvent, Store

log = logging.getLogger("pyrula.duties")

# events taken side by side, so that their writes are one commit
_PAGE = 50
# how long a filter may take (seconds), and how often what could not be taken is tried again
_PATIENCE_S = 5.0
_AGAIN_MS = 30_000


class FanOut:
    """The round of one worker."""

    def __init__(
        self, store: Store, programs: Sequence[Program], payloads: Payloads, mono_ms: Callable[[], int]
    ) -> None:
        self._store = store
        self._programs = {program.name: program for program in programs if program.triggers}
        self._payloads = payloads
        self._mono_ms = mono_ms
        self._threads = Threads(1, "pyrula-filter")
        self._turn = asyncio.Lock()
        self._after: PendingEvent | None = None  # the last one that was looked at
        self._began_ms: int | None = None  # when a round began at the oldest

    @property
    def is_needed(self) -> bool:
        """Whether any workflow here is started by events."""
        return bool(self._programs)

    async def act(self) -> None:
        """Take what there is."""
        now_ms = self._mono_ms()
        if self._began_ms is None or now_ms - self._began_ms >= _AGAIN_MS:
            self._began_ms, self._after = now_ms, None
        while page := await self._store.events_pending(frozenset(self._programs), _PAGE, self._after):
            await asyncio.gather(*map(self._take, page))
            self._after = page[-1]

    def stop(self) -> None:
        """Ask no filter any more."""
        self._threads.shutdown()

    async def _take(self, each: PendingEvent) -> None:
        event, workflow = each.event, each.workflow
        assert workflow is not None  # those without one are not asked for
        program = self._programs[workflow]
        trigger = next((one for one in program.triggers if one.event == event.name), None)
        if trigger is None:
            self._leave(each, "this version of the workflow does not know it")
            return
        try:
            payload: Json = orjson.loads(self._payloads.open(event.body))
            admitted = await self._admits(trigger, payload)
        except (CodecFailed, _FilterFailed) as error:
            self._leave(each, str(error))
            return
        run = self._run(program, each, payload) if admitted else None
        if await self._store.settle_event(event.event_id, workflow, run) and run is not None:
            log.info("%s began run %s of %s", _words(event), run.run_id, workflow)

    def _run(self, program: Program, each: PendingEvent, payload: Json) -> NewRun:
        """The run that an event begins; its input is the payload, as it was stored."""
        chance = hashlib.sha256(f"{each.event.event_id}\0{program.name}".encode()).digest()
        return NewRun(
            run_id=self._store.new_run_id(each.emitted_ms, chance[:10]),
            workflow=program.name,
            version=program.version,
            input=each.event.body,
            digest=input_digest(program.name, orjson.dumps(payload, option=orjson.OPT_SORT_KEYS)),
            status=RunStatus.queued,
        )

    async def _admits(self, trigger: Trigger, payload: Json) -> bool:
        admits = trigger.admits
        if admits is None:
            return True
        async with self._turn:  # so that each has all of its time
            job = self._threads.submit(lambda: bool(admits(payload)))
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    admitted: bool = await asyncio.wrap_future(job)
            except TimeoutError as error:
                job.give_up()
                raise _FilterFailed(f"its filter has not come back within {_PATIENCE_S:g} s") from error
            except Exception as error:
                raise _FilterFailed(f"its filter raised {type(error).__name__}: {error}") from error
            return admitted

    def _leave(self, each: PendingEvent, reason: str) -> None:
        log.warning("%s is left for other code of %s: %s", _words(each.event), each.workflow, reason)


def _words(event: Event) -> str:
    return f"event {event_id_of(event.name, event.event_id)} ({event.name})"


class _FilterFailed(Exception):
    """A filter gave no answer."""
