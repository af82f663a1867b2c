"""Another process on the same file: does one act, tells by lines what it has done, waits for lines where it says so."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.stores.clock import SystemClock
from pyrula_runtime.stores.protocol import Append, Wake
from pyrula_runtime.stores.sqlite import submits, wakes, write_lock
from pyrula_runtime.stores.sqlite.connection import beside
from pyrula_runtime.stores.sqlite.settings import Settings
from pyrula_runtime.stores.sqlite.store import SqliteStore
from pyrula_runtime.stores.sqlite.transaction import Tx
from tests.store.samples import COMPLETED, appending, claimed, new_run, request, until

ME = f"w-{os.getpid()}"
PLAIN = Settings(ballast_bytes=0)


def tell(line: str) -> None:
    print(line, flush=True)


async def told() -> str:
    return await asyncio.to_thread(sys.stdin.readline)


async def opened(path: Path, settings: Settings = PLAIN) -> SqliteStore:
    store = SqliteStore(path, SystemClock(), settings)
    await store.open()
    return store


async def hold_lock(path: Path) -> None:
    """Hold the write lock until told."""
    lock = write_lock.obtain(beside(path, ".lock"))
    with lock.held():
        tell("held")
        sys.stdin.readline()
    tell("released")


async def hold_lock_and_want(path: Path, other: str) -> None:
    """Hold this store's lock until told, while another thread waits for that of the other store."""
    lock, wanted = write_lock.obtain(beside(path, ".lock")), write_lock.obtain(beside(Path(other), ".lock"))

    def want() -> None:
        with wanted.held():
            tell("got the other")

    async def is_waiting() -> bool:
        return wanted.waiting_since > 0

    with lock.held():
        waiting = threading.Thread(target=want)
        waiting.start()
        await until(is_waiting)
        tell("held")
        sys.stdin.readline()
    waiting.join()


async def claim_all(path: Path) -> None:
    """Claim, a few at a time, until nothing is left; tell the runs."""
    store = await opened(path)
    await told()
    taken: list[str] = []
    while claims := await store.claim(request(limit=3, incarnation=ME)):
        taken += [claim.token.run_id for claim in claims]
    tell(json.dumps(taken))
    await store.close()


async def commit_many(path: Path, count: str, size: str) -> None:
    """Finish runs of many commits, with very frequent checkpoints."""
    store = await opened(path, Settings(ballast_bytes=0, checkpoint_pages=8))
    await told()
    for _ in range(4):
        claim = await claimed(store, ME, workflow=ME)
        answers = await asyncio.gather(
            *(store.commit(appending(claim.token, at, b"x" * int(size))) for at in range(int(count)))
        )
        last = await store.commit(appending(claim.token, int(count), ending=COMPLETED))
        assert {answer.append for answer in (*answers, last)} == {Append.done}
    tell("done")
    await store.close()


async def die_in_transaction(path: Path, run_id: str) -> None:
    """Be killed between BEGIN and COMMIT, with a row written."""
    store = await opened(path)

    def write_and_die(tx: Tx) -> None:
        submits.submit(tx, new_run(run=run_id))
        os.kill(os.getpid(), signal.SIGKILL)

    await store._write(write_and_die)


async def die_holding(path: Path) -> None:
    """Take a run and be killed."""
    store = await opened(path)
    claim = await claimed(store, ME)
    await store.commit(appending(claim.token, 0, b"step"))
    tell(claim.token.run_id)
    os.kill(os.getpid(), signal.SIGKILL)


async def listen(path: Path) -> None:
    """Tell the first wake; the fallback is out of reach, so only a socket can have brought it."""
    wakes.FALLBACK_S = 3600
    store = await opened(path)
    rung: asyncio.Queue[Wake] = asyncio.Queue()
    store.listen(rung.put_nowait, frozenset({Wake.ready}))
    tell("listening")
    tell((await rung.get()).value)
    await store.close()


async def fork(path: Path) -> None:
    """Use a store that was opened before a fork, in the child; then go on in the parent."""
    warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads alive is the very misuse
    store = await opened(path)
    run = new_run()
    await store.submit(run)
    child = os.fork()
    if child == 0:
        try:
            await store.submit(new_run())
        except UsageError as error:
            tell(str(error))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    record = await store.read(run.run_id)
    assert record is not None
    tell(record.status)
    await store.close()


ACTS: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {
    act.__name__: act
    for act in (
        hold_lock,
        hold_lock_and_want,
        claim_all,
        commit_many,
        die_in_transaction,
        die_holding,
        listen,
        fork,
    )
}

if __name__ == "__main__":
    name, where, *args = sys.argv[1:]
    asyncio.run(ACTS[name](Path(where), *args))
