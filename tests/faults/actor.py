"""What a forged process does: it is a worker, composed as `pyrula worker` composes it, with a seam under it.

The order says everything: store, runtime directory, options, faults. What the process has to tell goes as lines of JSON
to the connection that the order came by; what it logs goes to a file of its own.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import threading
from pathlib import Path
from typing import Any, NoReturn

from pyrula_runtime.cli.endings import leave
from pyrula_runtime.cli.signals import Signals
from pyrula_runtime.options import WorkerOptions
from pyrula_runtime.stores.opening import open_store
from pyrula_runtime.stores.protocol import Store
from pyrula_runtime.stores.seam import Seam
from pyrula_runtime.stores.sqlite import store as _loaded_before_the_fork  # noqa: F401 - the door imports it only when asked
from pyrula_runtime.worker import Worker, WorkerSetup
from pyrula_runtime.workflows.programs import program_of
from pyrula_runtime.workflows.registry import REGISTRY
from tests.faults import workflows as _defined  # noqa: F401 - importing them registers them
from tests.faults.history import recorded
from tests.faults.plan import Plan, Point, Tell

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

    leave(_serve(order, tell))


def store_of(order: Order, tell: Tell) -> Store:
    """The store of the order, behind its faults, behind its recorder: the record says what the engine saw."""
    points = [Point(**point) for point in order["faults"]]
    plan = Plan(points, tell, order.get("seed"), order.get("share", 0.0))
    store: Store = Seam(open_store(order["store"]), plan)
    return recorded(store, Path(order["history"]), order["name"]) if order.get("history") else store


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

    def drain() -> bool:
        loop.call_soon_threadsafe(worker.request_stop)
        return worker.health.started

    signals.drain_by(drain)
    tell({"event": "begun", "incarnation": worker.incarnation})
    code = loop.run_until_complete(worker.run())
    signals.ignore()
    return code
