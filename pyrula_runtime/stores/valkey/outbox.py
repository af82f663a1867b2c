"""Effects on runs of other shards: written with the turn's own write, carried by whoever wrote them, or by a duty.

A script reaches one tag only. So what a commit does to others stands in the outbox of its shard, in the same write, as
a script's name, a tag and arguments; carrying it is running that. It is struck out once it was done. A crash between
the two leaves it there, and it is done again: each of these scripts changes nothing the second time. Writes that are
answered together are seen to together, page by page until nothing is left. What cannot be carried yet, because the
shard that it strikes gives no answer or only a newer version knows what it is, keeps nothing for other shards that
stands behind it. What strikes the same shard is carried once more: a cancel finds nobody before its run is begun.

A process may stand still between reading an effect and carrying it, while another one carries it, and the run that it
begins ends and is dropped: it would be begun once more. So what was read longer ago than `FRESH_S` is read anew, and
whoever drops runs of a store of several shards keeps each for longer than that after its end (duties.retention).
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Awaitable, Iterable, Sequence
from contextvars import Context
from functools import partial
from typing import Any

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.stores import protocol as p
from pyrula_runtime.stores.valkey.places import FIRST, shard_of_run
from pyrula_runtime.stores.valkey.shard import Runner
from pyrula_runtime.stores.valkey.shards import Shards

log = logging.getLogger(__name__)
_PAGE = 100
# how old what was read may be when it is carried
FRESH_S = 600.0
# the scripts that perform effects here; what else stands in an outbox is for those who know it
_KNOWN = frozenset({b"cancel", b"deliver", b"emit", b"submit"})


def shard_of(effect: p.Effect) -> int:
    """Where an effect strikes."""
    match effect:
        case p.DeliverTo(message=message):
            return shard_of_run(message.run_id)
        case p.SubmitRun(run=run):
            return shard_of_run(run.run_id)
        case p.CancelRun(run_id=run_id):
            return shard_of_run(run_id)
        case p.EmitEvent():
            return FIRST


class Outbox:
    """The verb `carry`, and the carrying after a write, which is tried again `again_s` later if it does not work."""

    def __init__(self, shards: Shards, run: Runner, again_s: float) -> None:
        self._shards, self._run, self._again_s = shards, run, again_s
        self._carrying: set[asyncio.Task[None]] = set()
        self._about_to_carry: dict[
            tuple[asyncio.AbstractEventLoop, int], asyncio.Task[None]
        ] = {}  # have not looked yet
        self._left_for_newer: set[bytes] = set()  # names of effects that were told to be unknown here
        self._left_over: set[int] = set()  # shards that were seen to have something to be carried

    async def finish(self, patience_s: float) -> None:
        """Wait for what is being carried on this loop."""
        loop = asyncio.get_running_loop()
        if carrying := [task for task in self._carrying if task.get_loop() is loop]:
            await asyncio.wait(carrying, timeout=patience_s)

    def has_left_over(self, number: int) -> None:
        """Somebody has seen that there is something to be carried from this shard."""
        self._left_over.add(number)

    async def carry(self, limit: int) -> int:
        """See to what was seen to be left over, at most so many; how many."""
        carried = 0
        fault: StoreUnavailable | None = None
        for number in sorted(self._left_over):
            try:
                carried += await self._carry_left_over(number, limit - carried)
            except StoreUnavailable as error:
                fault = fault or error  # the others need not wait for this one
        if fault is not None and carried == 0:
            raise fault
        return carried

    async def _carry_left_over(self, number: int, limit: int) -> int:
        carried = await self._carry_from(number, limit)
        if carried < limit:
            self._left_over.discard(number)
        return carried

    def carry_after(self, number: int, effects: Iterable[p.Effect], written: asyncio.Future[Any]) -> None:
        """Once this is written, see to what of it strikes other shards."""
        if not _strikes_others(number, effects):
            return

        def begin(done: asyncio.Future[Any]) -> None:
            if not done.cancelled() and done.exception() is None and done.result():
                self._carrying.add(self._carry_in_a_task(number))

        written.add_done_callback(begin)

    async def carry_with(self, number: int, effects: Iterable[p.Effect], written: Awaitable[bool]) -> bool:
        """The same, and answer only then; what cannot be carried now is not waited for."""
        done = await written
        if done and _strikes_others(number, effects):
            task = self._carry_in_a_task(number)
            self._carrying.add(task)
            await asyncio.wait([task])
        return done

    def _carry_in_a_task(self, number: int) -> asyncio.Task[None]:
        """The task that sees to this shard; it has not looked into the outbox before now."""
        loop = asyncio.get_running_loop()
        task = self._about_to_carry.get((loop, number))
        if task is None or task.done():
            # not in the context of a workflow's body, out of which the write may have come
            task = loop.create_task(self._carry_all(loop, number), context=Context())
            task.add_done_callback(partial(self._carried, number))
            self._about_to_carry[loop, number] = task
        return task

    async def _carry_all(self, loop: asyncio.AbstractEventLoop, number: int) -> None:
        await asyncio.sleep(0)  # for those whose answers came with this one's
        del self._about_to_carry[loop, number]
        await self._carry_from(number)

    def _carried(self, number: int, task: asyncio.Task[None]) -> None:
        self._carrying.discard(task)
        fault = None if task.cancelled() else task.exception()
        if not task.cancelled() and fault is None:
            self._left_over.discard(number)
            return
        self._left_over.add(number)  # whoever makes the next round carries it; what is no outage, that will raise
        if isinstance(fault, StoreUnavailable):
            log.debug("effects of shard %d on others are tried again: %s", number, fault)
            task.get_loop().call_later(self._again_s, self._carry_again, number, context=Context())

    def _carry_again(self, number: int) -> None:
        self._carrying.add(self._carry_in_a_task(number))

    async def _carry_from(self, number: int, limit: int = sys.maxsize) -> int:
        """See to all that is in the outbox of this shard, at most so many; raises what kept some from being carried."""
        shard, carried, seen = self._shards.shard(number), 0, 0
        away: dict[bytes, BaseException] = {}  # tags that could not be struck, and why
        while carried < limit:
            page = min(limit - carried, _PAGE)
            read_s = _boot_s()
            effects = await shard.ask("outbox", page, seen, told=list)
            due = [effect for effect in effects if self._is_known(number, effect[1]) and effect[2] not in away]
            told = await asyncio.gather(*[self._carry_one(effect, read_s) for effect in due], return_exceptions=True)
            done: list[int] = []
            for effect, answer in zip(due, told, strict=True):
                if answer is not None:
                    away.setdefault(effect[2], answer)
                elif effect[2] not in away:
                    done.append(effect[0])
            if done:
                await shard.ask("carried", *done, told=bool)
                carried += len(done)
            if len(effects) < page:
                break
            seen = effects[-1][0]
        for fault in away.values():
            raise fault
        return carried

    def _is_known(self, number: int, name: bytes) -> bool:
        """Whether this version can carry it; if not, a process of the version that wrote it will, and that is told."""
        if name not in _KNOWN and name not in self._left_for_newer:
            self._left_for_newer.add(name)
            log.warning(
                "shard %d has an effect %r that only a newer pyrula can carry out; it waits there until a process of "
                "that version runs: finish the upgrade",
                number,
                name.decode("utf-8", "replace"),
            )
        return name in _KNOWN

    async def _carry_one(self, effect: Sequence[Any], read_s: float) -> None:
        _, name, tag, args = effect
        if _boot_s() - read_s > FRESH_S:
            raise StoreUnavailable(
                "this process stood still while it carried effects to other shards; it reads them anew"
            )
        await self._run(tag.decode(), name.decode(), tuple(args), told=_nothing)


def _strikes_others(number: int, effects: Iterable[p.Effect]) -> bool:
    return any(shard_of(effect) != number for effect in effects)


def _boot_s() -> float:
    """Time since boot, that in which the host was suspended included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _nothing(reply: object) -> None:
    return None
