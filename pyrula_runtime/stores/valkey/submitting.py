"""Submits with an idempotency key, where the key and the run do not stand in one shard.

They do unless the caller chose the run's id, or the number of shards was changed within a key's life. A key's record
stands where the key leads, so all who submit with it meet there. A record is written before its run, and says once the
run is made that it was: whoever finds one that does not, because its submitter died between the two, makes that run.
One that does say so stands for its run also when the run has ended and is kept no longer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.stores import protocol as p
from pyrula_runtime.stores.valkey.places import shard_of_key, shard_of_run
from pyrula_runtime.stores.valkey.shard import Moved, Unmade
from pyrula_runtime.stores.valkey.shards import Shards

Answer = TypeVar("Answer")


class Submitting:
    """The verb `submit`; `now_ms` gives the wall time."""

    def __init__(self, shards: Shards, now_ms: Callable[[], int]) -> None:
        self._shards, self._now_ms = shards, now_ms

    def submit(self, run: p.NewRun) -> Awaitable[p.Submitted]:
        """Create the run, or say which one stands for its key."""
        number = shard_of_run(run.run_id)
        if run.idempotency_key is None and number < self._shards.most:
            return self._shards.shard(number).submit(run)
        return self._submit(run)

    async def _submit(self, run: p.NewRun) -> p.Submitted:
        number = shard_of_run(run.run_id)
        if number >= self._shards.most:
            await self._shards.learn()
            if number >= self._shards.most:
                raise UsageError(
                    f"run id {run.run_id!r} names shard {number}, of {self._shards.most}; let the store make the id, "
                    f"or choose one that does not look like that"
                )
        if run.idempotency_key is None:
            return await self._shards.shard(number).submit(run)
        while True:
            known = self._shards.layout.count
            try:
                return await self._submit_with_key(run, run.idempotency_key)
            except Moved:
                await self._shards.learn()
                if self._shards.layout.count == known:
                    # others were told of a number that the first shard has lost since, by a failover
                    await self._shards.place_keys(self._shards.layout)

    async def _submit_with_key(self, run: p.NewRun, key: str) -> p.Submitted:
        layout, home, shard = self._shards.layout, shard_of_run(run.run_id), self._shards.shard
        place = shard_of_key(key, layout.count)
        former = {shard_of_key(key, count) for count in layout.former_for(self._now_ms(), run.idempotency_ttl_ms)}
        for number in former - {place}:
            if (told := await self._asked(number, run, shard(number).look_up_key(run, layout.count))) is not None:
                return told
        if place == home:
            return await self._asked(place, run, shard(place).submit(run, layout.count))
        if (told := await self._asked(place, run, shard(place).look_up_key(run, layout.count))) is not None:
            return told
        if (there := await shard(home).read(run.run_id)) is not None:
            same = there.digest == run.digest
            submission = p.Submission.existing if same else p.Submission.conflict
            return p.Submitted(run_id=run.run_id, submission=submission)
        if (told := await self._asked(place, run, shard(place).keep_key(run, layout.count))) is not None:
            return told
        return await self._make(run, place)

    async def _asked(self, place: int, run: p.NewRun, answer: Awaitable[Answer]) -> Answer | p.Submitted:
        """The answer of the shard that keeps the key; a run that it names and that may not have been made is made."""
        try:
            return await answer
        except Unmade as unmade:
            return await self._make(replace(run, run_id=unmade.run_id), place)

    async def _make(self, run: p.NewRun, place: int) -> p.Submitted:
        submitted = await self._shards.of(run.run_id).submit(replace(run, idempotency_key=None))
        await self._shards.shard(place).made(run)
        return submitted
