"""What a forged process does: it is a worker, composed as `pyrula worker` composes it, or a client; over a seam.

The order says everything: role, store, runtime directory, options, faults. What the process has to tell goes as lines
of JSON to the connection that the order came by; what it logs goes to a file of its own.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NoReturn, cast

import apsw

from pyrula.workflows import WorkflowClient
from pyrula_runtime.cli.signals import Signals
from pyrula_runtime.http import serve_probes
from pyrula_runtime.leaving import leave
from pyrula_runtime.options import WorkerOptions
from pyrula_runtime.stores.opening import open_store
from pyrula_runtime.stores.protocol import EVERY_WAKE, Listening, Store, Wake
from pyrula_runtime.stores.seam import Seam
from pyrula_runtime.stores.sqlite import store as _file  # noqa: F401 - loaded before the fork: the door does so if asked
from pyrula_runtime.stores.sqlite import write_lock
from pyrula_runtime.stores.valkey import store as _server  # noqa: F401 - the same
from pyrula_runtime.stores.valkey.settings import Settings
from pyrula_runtime.stores.valkey.store import ValkeyStore
from pyrula_runtime.worker import Worker, WorkerSetup
from pyrula_runtime.workflows.programs import program_of
from pyrula_runtime.workflows.registry import REGISTRY
from tests.faults import waits as _waits  # noqa: F401 - importing them registers them
from tests.faults import workflows as _defined  # noqa: F401 - the same
from tests.faults.history import recorded
from tests.faults.plan import Plan, Point, Tell
from tests.store.valkey.shifted import Shifted

Order = dict[str, Any]

PROGRAMS = [program_of(workflow) for workflow in REGISTRY]  # made once, before the forks


def play(order: Order, line: socket.socket) -> NoReturn:
    """Be what the order says, then end the process."""
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    logging.basicConfig(level="INFO", format="%(asctime)s %(name)s %(message)s")
    mutex = threading.Lock()

    def tell(event: dict[str, Any]) -> None:
        with mutex:
            line.sendall(json.dumps(event).encode() + b"\n")

    leave(_ROLES[order["role"]](order, tell))


def store_of(order: Order, tell: Tell) -> Store:
    """The store of the order, behind its faults, behind its recorder: the record says what the engine saw."""
    points = [Point(**point) for point in order["faults"]]
    plan = Plan(points, tell, order.get("seed"), order.get("share", 0.0))
    store: Store = Seam(_opened(order), plan)
    if order.get("deaf_to"):
        store = deaf(store, frozenset(map(Wake, order["deaf_to"])))
    return recorded(store, Path(order["history"]), order["name"]) if order.get("history") else store


def _opened(order: Order) -> Store:
    """The order's store; with measures of its own if a test has no time for the usual ones."""
    if order.get("settings"):
        kind = Shifted if order.get("shifted") else ValkeyStore
        return kind(order["store"], None, Settings(**order["settings"]))
    return open_store(order["store"])


class _Deaf:
    """A store whose wakes of some kinds are lost, by every way that they come."""

    def __init__(self, store: Store, kinds: frozenset[Wake]) -> None:
        self._store = store
        self._kinds = kinds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def listen(self, on_wake: Callable[[Wake], None], kinds: frozenset[Wake] = EVERY_WAKE) -> Listening:
        return self._store.listen(lambda wake: None if wake in self._kinds else on_wake(wake), kinds)


def deaf(store: Store, kinds: frozenset[Wake]) -> Store:
    """The store with these wakes lost."""
    return cast(Store, _Deaf(store, kinds))


def _serve(order: Order, tell: Tell) -> int:
    signals = Signals()
    setup = WorkerSetup(
        programs=PROGRAMS,
        store=store_of(order, tell),
        options=WorkerOptions(**order["options"]),
        runtime_dir=Path(order["runtime"]),
        worker_id=order.get("worker_id"),
    )
    worker = Worker(setup)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)

    def request_stop() -> None:
        worker.request_stop()
        loop.call_soon(tell, {"event": "draining"})  # behind the drain's own first step

    def drain() -> bool:
        loop.call_soon_threadsafe(request_stop)
        return worker.health.started

    signals.drain_by(drain)
    tell({"event": "begun", "incarnation": worker.incarnation})
    code = loop.run_until_complete(_serve_with_probes(worker, order, tell))
    signals.ignore()
    return code


async def _serve_with_probes(worker: Worker, order: Order, tell: Tell) -> int:
    if not order.get("probes"):
        return await worker.run()
    async with serve_probes(worker, "127.0.0.1", 0) as url:
        tell({"event": "probes", "url": url})
        return await worker.run()


def _submit(order: Order, tell: Tell) -> int:
    async def act(client: WorkflowClient) -> None:
        handle = await client.submit(order["workflow"], order["input"], idempotency_key=order["key"])
        tell({"event": "submitted", "run": handle.run_id})

    return asyncio.run(_with_client(order, tell, act))


def _cancel(order: Order, tell: Tell) -> int:
    return asyncio.run(_with_client(order, tell, lambda client: client.cancel(order["run"])))


async def _with_client(order: Order, tell: Tell, act: Callable[[WorkflowClient], Awaitable[None]]) -> int:
    async with WorkflowClient(store_of(order, tell)) as client:
        await act(client)
    return 0


def _hold(order: Order, tell: Tell) -> int:
    """Be in the middle of a write, with the host's write lock, until somebody ends it."""
    path = Path(order["store"].removeprefix("sqlite:///"))
    with write_lock.obtain(path.with_name(path.name + ".lock")).held(), apsw.Connection(str(path)) as db:
        db.execute("UPDATE run SET ready = 0")
        tell({"event": "holding"})
        signal.pause()
    return 0


def _hog(order: Order, tell: Tell) -> int:
    """Want a processor for ever, as nicely as the order says."""
    os.nice(order.get("niceness", 0))
    tell({"event": "hogging"})
    while True:
        pass


_ROLES = {"hog": _hog, "hold": _hold, "worker": _serve, "submit": _submit, "cancel": _cancel}
