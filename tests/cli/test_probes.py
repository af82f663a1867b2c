"""The probes: what they say in each state of a worker, and that no client delays their end."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import httpx
import pytest

from pyrula_runtime.core.errors import ConfigurationError
from pyrula_runtime.engine.health import Health
from pyrula_runtime.http import serve_probes


@dataclass(slots=True)
class Probed:
    """What a worker shows to its probes."""

    health: Health = field(default_factory=lambda: Health(started=True))
    worker_id: str = "w-1"
    incarnation: str = "i-1"
    capacity: int = 50
    turns_running: int = 2
    turns_done: int = 7


@pytest.fixture
def worker() -> Probed:
    return Probed()


@pytest.fixture
async def client(worker: Probed) -> AsyncIterator[httpx.AsyncClient]:
    async with serve_probes(worker, "127.0.0.1", 0) as url, httpx.AsyncClient(base_url=url, trust_env=False) as client:
        yield client


async def told(client: httpx.AsyncClient, path: str) -> tuple[int, dict[str, str]]:
    answer = await client.get(path)
    return answer.status_code, answer.json()


async def test_a_worker_that_serves_is_live_and_ready(client: httpx.AsyncClient) -> None:
    assert await told(client, "/livez") == (200, {"status": "ok"})
    assert await told(client, "/readyz") == (200, {"status": "ok"})


async def test_a_worker_that_starts_is_not_ready_yet(client: httpx.AsyncClient, worker: Probed) -> None:
    worker.health.started = False
    code, answer = await told(client, "/readyz")
    assert (code, answer["status"]) == (503, "starting")
    assert await told(client, "/livez") == (200, {"status": "ok"})


async def test_a_drain_is_not_ready_and_stays_live(client: httpx.AsyncClient, worker: Probed) -> None:
    worker.health.draining = True
    code, answer = await told(client, "/readyz")
    assert (code, answer["status"]) == (503, "draining")
    assert await told(client, "/livez") == (200, {"status": "ok"})


async def test_a_store_outage_is_not_ready_and_says_why(client: httpx.AsyncClient, worker: Probed) -> None:
    worker.health.store_failed(RuntimeError("the disk is full"))
    assert await told(client, "/readyz") == (503, {"status": "store_unavailable", "reason": "the disk is full"})
    assert await told(client, "/livez") == (200, {"status": "ok"})


async def test_a_dead_loop_is_neither_live_nor_ready(client: httpx.AsyncClient, worker: Probed) -> None:
    worker.health.loop_failed("renewal")
    assert await told(client, "/livez") == (503, {"status": "loop_failed", "loop": "renewal"})
    code, answer = await told(client, "/readyz")
    assert (code, answer["status"]) == (503, "loop_failed")


async def test_metrics_are_what_the_worker_knows_now(client: httpx.AsyncClient, worker: Probed) -> None:
    worker.turns_running, worker.turns_done = 3, 11
    worker.health.draining = True
    answer = await client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    lines = answer.text.splitlines()
    for line in (
        "pyrula_turns_running 3.0",
        "pyrula_turns_done_total 11.0",
        "pyrula_turns_capacity 50.0",
        "pyrula_store_ok 1.0",
        "pyrula_draining 1.0",
        "pyrula_ready 0.0",
        'pyrula_worker_info{incarnation="i-1",worker_id="w-1"} 1.0',
    ):
        assert line in lines
    assert any(line.startswith("process_start_time_seconds ") for line in lines)


async def test_any_other_path_is_not_found(client: httpx.AsyncClient) -> None:
    assert (await client.get("/")).status_code == 404
    assert (await client.post("/livez")).status_code == 405
    assert (await client.head("/livez")).status_code == 200


async def test_a_port_in_use_is_one_sentence_with_host_and_port(worker: Probed) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError) as refused:
            async with serve_probes(worker, "127.0.0.1", port):
                raise AssertionError("the port is taken")
    (fault,) = refused.value.faults
    assert f"health port {port} on 127.0.0.1" in fault
    assert "in use by another program" in fault


@pytest.mark.parametrize(
    ("host", "reason"),
    [("no-such-host.invalid", "is no address of this host"), ("192.0.2.1", "this host does not have that address")],
)
async def test_a_host_that_is_none_is_refused(worker: Probed, host: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        async with serve_probes(worker, host, 0):
            raise AssertionError("there is no such host")


async def test_clients_that_say_half_of_something_do_not_delay_the_end(worker: Probed) -> None:
    async with asyncio.timeout(10):
        async with serve_probes(worker, "127.0.0.1", 0) as url:
            host, port = httpx.URL(url).host, httpx.URL(url).port
            silent, to_close = await asyncio.open_connection(host, port)
            half, writer = await asyncio.open_connection(host, port)
            writer.write(b"GET /livez HTTP/1.1\r\nHost: x")
            await writer.drain()
            async with httpx.AsyncClient(trust_env=False) as client:
                assert (await client.get(f"{url}/livez")).status_code == 200
        assert await silent.read() == b""
        assert await half.read() == b""
        for each in (to_close, writer):
            each.close()
            await each.wait_closed()


async def test_the_port_is_free_again_afterwards(worker: Probed) -> None:
    async with serve_probes(worker, "127.0.0.1", 0) as url:
        port = httpx.URL(url).port or 0
    async with serve_probes(worker, "127.0.0.1", port) as again:
        assert again == url


async def test_signals_and_logging_are_left_alone(worker: Probed) -> None:
    def kept() -> tuple[object, ...]:
        return (
            signal.getsignal(signal.SIGTERM),
            signal.getsignal(signal.SIGINT),
            list(logging.root.handlers),
            list(logging.getLogger("uvicorn").handlers),
        )

    before = kept()
    async with serve_probes(worker, "127.0.0.1", 0):
        assert kept() == before
    assert kept() == before
