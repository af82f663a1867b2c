"""The probes of one worker: `/livez`, `/readyz` and `/metrics`, answered by the control thread.

That thread runs no user code, so an answer proves that the worker itself is alive, however stuck a run may be. The
server is uvicorn's, but neither its main loop nor its signal handling is used: it starts when told and stops when told,
and it leaves process and logging alone. Starting and stopping are bounded; a client that says nothing, or half of
something, is cut off at the end and delays nobody. Server and metrics cost a tenth of a second to import, so a worker
without a port never loads them.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Protocol

from pyrula_runtime.engine.health import Health
from pyrula_runtime.listening import listening_on, url_of

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric
    from starlette.applications import Starlette

log = logging.getLogger("pyrula.worker")

# how long the end waits for answers that are under way (whole seconds)
_LAST_ANSWERS_S = 1


class Probed(Protocol):
    """What the probes look at; touched on the loop's thread only."""

    health: Health
    worker_id: str
    incarnation: str

    @property
    def capacity(self) -> int:
        """How many turns may run at once."""

    @property
    def turns_running(self) -> int:
        """How many run now."""

    @property
    def turns_done(self) -> int:
        """How many ended here by themselves."""


@contextlib.asynccontextmanager
async def serve_probes(worker: Probed, host: str, port: int) -> AsyncIterator[str]:
    """Answer the probes on the running loop as long as the context lasts; gives the address as URL.

    Raises ConfigurationError, before anything is imported, if the port cannot be had. Port 0 takes any free one.
    """
    listening = listening_on(host, port)
    url = url_of(listening)
    import uvicorn

    config = uvicorn.Config(
        _app(worker),
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="off",
        ws="none",
        http="h11",
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=_LAST_ANSWERS_S,
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[listening])
    log.info("probes answer on %s", url)
    try:
        yield url
    finally:
        await server.shutdown(sockets=[listening])


def _app(worker: Probed) -> Starlette:
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    registry = _registry(worker)

    async def livez(_request: Request) -> Response:
        told, is_live = alive(worker.health)
        return JSONResponse(told, 200 if is_live else 503)

    async def readyz(_request: Request) -> Response:
        told, is_ready = ready(worker.health)
        return JSONResponse(told, 200 if is_ready else 503)

    async def metrics(_request: Request) -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return Starlette(routes=[Route("/livez", livez), Route("/readyz", readyz), Route("/metrics", metrics)])


def alive(health: Health) -> tuple[dict[str, str], bool]:
    """What `/livez` says, and whether all is well."""
    if health.is_live:
        return {"status": "ok"}, True
    return {"status": "loop_failed", "loop": health.failed_loop}, False


def ready(health: Health) -> tuple[dict[str, str], bool]:
    """What `/readyz` says, and whether all is well."""
    status = health.status
    reasons = {
        "loop_failed": f"the {health.failed_loop} loop died",
        "draining": "this worker finishes its runs and claims no more",
        "starting": "this worker has not begun to claim yet",
        "store_unavailable": health.store_fault,
    }
    told = {"status": status}
    if status in reasons:
        told["reason"] = reasons[status]
    return told, status == "ok"


class _Figures:
    """What a worker knows, read at the moment of asking."""

    def __init__(self, worker: Probed) -> None:
        self._worker = worker

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily

        worker, health = self._worker, self._worker.health
        names = {"worker_id": worker.worker_id, "incarnation": worker.incarnation}
        yield InfoMetricFamily("pyrula_worker", "Which worker this is.", value=names)
        yield CounterMetricFamily("pyrula_turns_done", "Turns that ended here by themselves.", value=worker.turns_done)
        for name, meaning, value in (
            ("turns_running", "Turns that run now.", worker.turns_running),
            ("turns_capacity", "Turns that may run at once.", worker.capacity),
            ("store_ok", "1 while the store answers.", not health.store_fault),
            ("ready", "1 while new runs are claimed.", health.status == "ok"),
            ("draining", "1 from the request to stop on.", health.draining),
            ("loop_failed", "1 once a background loop has died.", not health.is_live),
        ):
            yield GaugeMetricFamily(f"pyrula_{name}", meaning, value=value)


def _registry(worker: Probed) -> CollectorRegistry:
    from prometheus_client import CollectorRegistry, ProcessCollector

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures(worker))
    ProcessCollector(registry=registry)
    return registry
