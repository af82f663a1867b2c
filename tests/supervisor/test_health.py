"""The health port under clients of every kind: those that ask, say nothing, say half of it, or do not listen."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress

import httpx
import pytest

from pyrula_runtime.core.errors import ConfigurationError
from pyrula_runtime.probe import Page
from pyrula_supervisor import health
from pyrula_supervisor.health import MAX_CONNECTIONS, HealthPort
from tests.supervisor.sites import many_descriptors

GET = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE = 8_000_000

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def pages(path: str) -> Page | None:
    return {
        "/livez": Page.json(200, {"status": "ok"}),
        "/large": Page(status=200, body=bytes(LARGE)),
    }.get(path)


class Clients:
    """Raw connections to one port, closed in the end."""

    def __init__(self, stack: AsyncExitStack, address: tuple[str, int]) -> None:
        self._stack = stack
        self._address = address

    async def open(self) -> Streams:
        reader, writer = await asyncio.open_connection(*self._address)
        self._stack.push_async_callback(self._close, writer)
        return reader, writer

    async def _close(self, writer: asyncio.StreamWriter) -> None:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


@pytest.fixture
async def port() -> AsyncIterator[HealthPort]:
    with many_descriptors():
        made = HealthPort()
        yield made
        made.close()


@pytest.fixture
async def url(port: HealthPort) -> str:
    taken = port.bind("127.0.0.1", 0)
    await port.serve(pages)
    return taken


@pytest.fixture
async def clients(url: str) -> AsyncIterator[Clients]:
    async with AsyncExitStack() as stack, asyncio.timeout(60):
        where = httpx.URL(url)
        assert where.port is not None
        yield Clients(stack, (where.host, where.port))


async def asked(streams: Streams) -> bytes:
    """The answer to a whole question."""
    streams[1].write(GET)
    return await streams[0].readuntil(b"}\n")


async def test_it_answers_and_keeps_the_connection(clients: Clients, port: HealthPort) -> None:
    one = await clients.open()
    for _ in range(3):
        assert (await asked(one)).startswith(b"HTTP/1.1 200 ")
    assert port.connections == 1


async def test_a_client_of_a_library_is_served(url: str) -> None:
    async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
        assert (await client.get("/livez")).json() == {"status": "ok"}
        assert (await client.head("/livez")).status_code == 200
        assert (await client.get("/nowhere")).status_code == 404
        assert (await client.post("/livez", content=b"x" * 100_000)).status_code == 405
        assert (await client.get("/livez", headers={"cookie": "c" * 9000})).status_code == 431
        assert len((await client.get("/large")).content) == LARGE


async def test_a_thousand_silent_clients_are_in_nobodys_way(clients: Clients, port: HealthPort) -> None:
    crowd = [await clients.open() for _ in range(1000)]
    for _, writer in crowd[::2]:
        writer.write(b"GET /livez HT")
    prober = await clients.open()
    began = time.monotonic()
    assert (await asked(prober)).startswith(b"HTTP/1.1 200 ")
    assert time.monotonic() - began < 1  # a bound for a loaded machine; what it takes is measured elsewhere
    assert port.connections == port.limit == MAX_CONNECTIONS
    assert await crowd[0][0].read() == b""  # who came first, and never asked, had to go
    assert (await asked(prober)).startswith(b"HTTP/1.1 200 ")


async def test_who_asks_stays_and_who_is_silent_goes() -> None:
    port = HealthPort(limit=3)
    where = httpx.URL(port.bind("127.0.0.1", 0))
    await port.serve(pages)
    assert where.port is not None
    async with AsyncExitStack() as stack, asyncio.timeout(60):
        clients = Clients(stack, (where.host, where.port))
        first, silent, third = [await clients.open() for _ in range(3)]
        await asked(third)
        await asked(first)
        fourth = await clients.open()
        assert await silent[0].read() == b""
        for each in (first, third, fourth):
            assert (await asked(each)).startswith(b"HTTP/1.1 200 ")
    port.close()


async def test_half_a_question_has_a_deadline(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_REQUEST_S", 0.1)
    half, silent, slow = [await clients.open() for _ in range(3)]
    half[1].write(GET[:20])
    for byte in GET[:3]:
        slow[1].write(bytes([byte]))
    for reader, _ in (half, silent, slow):
        assert await reader.read() == b""


async def test_a_client_that_does_not_listen_has_a_deadline(
    clients: Clients, port: HealthPort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "_IDLE_S", 0.1)
    gone = asyncio.Event()
    monkeypatch.setattr(port, "left", lambda _client: gone.set())
    deaf = await clients.open()
    deaf[1].transport.pause_reading()  # type: ignore[attr-defined]  # the stream's transport can
    for _ in range(100):
        deaf[1].write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
    with suppress(ConnectionError):
        await deaf[1].drain()
    await gone.wait()


async def test_who_sends_too_much_still_hears_why(clients: Clients) -> None:
    reader, writer = await clients.open()
    writer.write(b"GET /livez HTTP/1.1\r\nCookie: " + b"c" * 5_000_000)
    assert (await reader.read()).startswith(b"HTTP/1.1 431 ")


async def test_a_port_in_use_is_one_sentence_with_host_and_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        with pytest.raises(ConfigurationError) as refused:
            HealthPort().bind("127.0.0.1", number)
    (fault,) = refused.value.faults
    assert f"health port {number} on 127.0.0.1" in fault
    assert "in use by another program" in fault


async def test_the_end_closes_everything_and_frees_the_port(clients: Clients, port: HealthPort, url: str) -> None:
    one = await clients.open()
    await asked(one)
    port.close()
    assert await one[0].read() == b""
    again = HealthPort()
    assert again.bind("127.0.0.1", httpx.URL(url).port or 0) == url
    again.close()
