"""The store without engine, workflows and client: the same verbs in the same order, 50 runs abreast on one loop.

What lies between this and the whole product is the engine's; what lies between this and the raw limit is the store's.
"""

from __future__ import annotations

import asyncio
import json
import sys

from benchmarks.load import fill
from benchmarks.tape import Pen
from pyrula_runtime.core.status import RunEvent, RunStatus, after
from pyrula_runtime.stores.opening import open_store
from pyrula_runtime.stores.protocol import Claim, ClaimRequest, Commit, Ending, NewRun, Serves, Store

_BODY = b"x" * 120
_LOCK_MS = 30_000
_CLAIM = ClaimRequest(
    incarnation="alone",
    serves=(Serves(workflow="noop", version=None),),
    limit=1,
    lock_ttl_ms=_LOCK_MS,
    to_status=after(RunStatus.queued, RunEvent.claim),
)
_DONE = Ending(status=after(RunStatus.running, RunEvent.complete), result=b'"1"')


async def _submit(store: Store, key: str) -> None:
    run = NewRun(
        run_id=f"01JD00000000000000000{int(key):05d}",
        workflow="noop",
        version=None,
        input=b'{"key":"1"}',
        digest="0" * 32,
        status=RunStatus.queued,
    )
    await store.submit(run)


async def _turns(store: Store, steps: int) -> None:
    """One slot: claim a run, commit its steps one by one, end it, go on with the one that came with the answer."""
    claims = await store.claim(_CLAIM)
    while claims:
        for done in range(steps - 1):
            await store.commit(_commit(claims[0], done, steps))
        claims = (await store.commit(_commit(claims[0], max(steps - 1, 0), steps))).claims


def _commit(claim: Claim, done: int, steps: int) -> Commit:
    last = done >= steps - 1
    return Commit(
        token=claim.token,
        expected_len=done,
        entries=(_BODY,) if steps else (),
        lock_ttl_ms=_LOCK_MS,
        ending=_DONE if last else None,
        claim=_CLAIM if last else None,
    )


async def main() -> None:
    """Read the command line: store URL; `fill` with count and in flight, or `drain` with steps and slots."""
    url, action, first, second = sys.argv[1:]
    store = open_store(url)
    await store.open()
    pen, answer = Pen(), {}
    pen.note("begin", action)
    if action == "fill":
        answer = await fill(lambda key: _submit(store, key), int(first), int(second))
    else:
        await asyncio.gather(*(_turns(store, int(first)) for _ in range(int(second))))
    pen.note("end", action)
    await store.close()
    sys.stdout.write(f"{json.dumps(answer)}\n")


if __name__ == "__main__":
    asyncio.run(main())
