"""A store on a server as runs gather in it, by the store's verbs alone, 50 under way: fills it, or measures a batch."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable

from benchmarks.inside.raw_valkey import Raw, scripts_in
from pyrula_runtime.core.status import RunEvent, RunStatus, after
from pyrula_runtime.stores.opening import open_store
from pyrula_runtime.stores.protocol import Claim, ClaimRequest, Commit, Ending, NewRun, Serves, Store

_ABREAST = 50
_LOCK_MS = 600_000
_CLAIM = ClaimRequest(
    incarnation="growing",
    serves=(Serves(workflow="noop", version=None),),
    limit=1,
    lock_ttl_ms=_LOCK_MS,
    to_status=after(RunStatus.queued, RunEvent.claim),
)
_DONE = Ending(status=after(RunStatus.running, RunEvent.complete), result=b'"1"')


class Growing:
    """The verbs, so many times; `first` is the number of the next run."""

    def __init__(self, store: Store, first: int) -> None:
        self._store, self._next = store, first
        self._held: list[Claim] = []

    async def submit(self) -> None:
        """One run more."""
        key, self._next = f"01JD{self._next:022d}", self._next + 1
        run = NewRun(
            run_id=key,
            workflow="noop",
            version=None,
            input=b'{"key":"1"}',
            digest="0" * 32,
            status=RunStatus.queued,
        )
        await self._store.submit(run)

    async def claim(self) -> None:
        """Take the oldest."""
        self._held += await self._store.claim(_CLAIM)

    async def finish(self) -> None:
        """End one that was taken."""
        token = self._held.pop().token
        await self._store.commit(Commit(token=token, expected_len=0, entries=(), lock_ttl_ms=_LOCK_MS, ending=_DONE))

    async def live(self) -> None:
        """Submit, take, end."""
        await self.submit()
        await self.claim()
        await self.finish()


async def _times(verb: Callable[[], Awaitable[None]], count: int) -> None:
    left = iter(range(count))

    async def one_after_another() -> None:
        for _ in left:
            await verb()

    await asyncio.gather(*(one_after_another() for _ in range(_ABREAST)))


async def _batch(url: str, growing: Growing, count: int) -> dict[str, float]:
    """What each verb costs the server, and all of it as it passes here."""
    raw, found = Raw(url), {}
    since = time.perf_counter()
    for name, verb in {"submit": growing.submit, "claim": growing.claim, "finish": growing.finish}.items():
        before = scripts_in(raw.ask([("INFO", "commandstats")])[0].decode())
        await _times(verb, count)
        took = scripts_in(raw.ask([("INFO", "commandstats")])[0].decode())
        found[name] = (took["took_us"] - before["took_us"]) / count
    return found | {"whole": (time.perf_counter() - since) / count * 1e6}


async def main() -> None:
    """Read the command line: server; `submit` or `live` to fill, or `batch`; the first run's number; how many."""
    url, action, first, count = sys.argv[1:]
    store = open_store(url)
    await store.open()
    growing = Growing(store, int(first))
    if action == "batch":
        answer = await _batch(url, growing, int(count))
    else:
        answer = {}
        await _times(growing.submit if action == "submit" else growing.live, int(count))
    await store.close()
    sys.stdout.write(f"{json.dumps(answer)}\n")


if __name__ == "__main__":
    asyncio.run(main())
