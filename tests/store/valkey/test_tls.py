"""TLS: the server proves who it is, a lane reads and writes through it, and who expects it in vain hears that."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from pyrula_runtime.core.errors import StoreRefused, StoreUnavailable
from pyrula_runtime.stores.protocol import Append, Wake
from pyrula_runtime.stores.valkey.address import Address, Tls, parse
from pyrula_runtime.stores.valkey.settings import Settings
from pyrula_runtime.stores.valkey.store import ValkeyStore
from tests.store.samples import appending, claimed, journal_of, new_run
from tests.store.valkey.servers import KEEPS, DidNotStart, Server, free_ports, kinds_of_server, shared

Opened = Callable[..., Awaitable[ValkeyStore]]


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the certificate of 127.0.0.1 and its key."""
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=here"
    said = [*command.split(), "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(said, cwd=folder, check=True, capture_output=True)
    return folder


async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while some := await source.read(65_536):
            target.write(some)
            await target.drain()
    target.close()


@pytest.fixture
async def address(certificate: Path) -> AsyncIterator[Address]:
    """An address that leads to the shared server by way of TLS."""
    plain = shared("valkey")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    going: set[asyncio.Task[None]] = set()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_unix_connection(plain.socket)
        going.update(asyncio.ensure_future(pump(*ends)) for ends in ((reader, inner_writer), (inner_reader, writer)))

    door = await asyncio.start_server(pass_on, "127.0.0.1", 0, ssl=context)
    port = door.sockets[0].getsockname()[1]
    tls = Tls(ca_certs=str(certificate / "cert.pem"))
    yield Address(host="127.0.0.1", port=port, tls=tls, namespace=os.urandom(6).hex())
    door.close()
    await asyncio.gather(*going)


async def test_a_store_works_through_tls(opened: Opened, address: Address) -> None:
    store = await opened(address)
    claim = await claimed(store)
    big = os.urandom(3_000_000)
    answers = await asyncio.gather(*[store.commit(appending(claim.token, at, b"x")) for at in range(100)])
    assert {answer.append for answer in answers} == {Append.done}
    assert (await store.commit(appending(claim.token, 100, big))).append is Append.done
    assert (await journal_of(store, claim.token.run_id))[100] == big
    rung = asyncio.Event()
    listening = store.listen(lambda wake: rung.set(), frozenset({Wake.ready}))
    await listening.is_heard.wait()
    rung.clear()
    await store.submit(new_run())
    await asyncio.wait_for(rung.wait(), 10)
    listening.close()
    await store.close()


async def test_a_server_that_does_not_prove_who_it_is_is_refused(address: Address) -> None:
    with pytest.raises(StoreRefused, match="does not prove who it is"):
        await ValkeyStore(replace(address, tls=Tls())).open()


async def test_an_operator_may_do_without_the_proof(opened: Opened, address: Address) -> None:
    store = await opened(replace(address, tls=Tls(verify=False)))
    assert (await store.submit(new_run())).run_id
    await store.close()


@pytest.fixture(params=list(kinds_of_server()))
def plain_port(request: pytest.FixtureRequest) -> Iterator[int]:
    (port,) = free_ports(1)
    server = Server(*KEEPS, "--requirepass", "secret", kind=request.param, port=port)
    yield port
    server.stop()


async def test_a_server_without_tls_says_that_it_speaks_none(plain_port: int) -> None:
    # it waits for the end of what it takes for a command, so nothing but the time for the greeting ends that
    soon = Settings(connect_s=0.3)
    with pytest.raises(StoreRefused, match="speaks no TLS on this port; write valkey:// or redis:// into"):
        await ValkeyStore(parse(f"rediss://:secret@127.0.0.1:{plain_port}"), None, soon).open()


async def test_what_speaks_tls_says_so_to_whoever_does_not(address: Address) -> None:
    with pytest.raises(StoreRefused, match="speaks only TLS on this port; write valkeys:// or rediss:// into"):
        await ValkeyStore(replace(address, tls=None)).open()


@pytest.mark.parametrize("kind", kinds_of_server())
async def test_a_server_s_own_tls_if_it_was_built_with_it(opened: Opened, certificate: Path, kind: str) -> None:
    (port,) = free_ports(1)
    cert, key = str(certificate / "cert.pem"), str(certificate / "key.pem")
    files = ("--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert, "--tls-auth-clients", "no")
    try:
        server = Server(*KEEPS, "--tls-port", str(port), *files, kind=kind)
    except DidNotStart:  # built without; the door of the other tests has it
        return
    try:
        store = await opened(parse(f"rediss://127.0.0.1:{port}?ssl_ca_certs={cert}"))
        assert (await store.submit(new_run())).run_id
        await store.close()
        with pytest.raises(StoreRefused, match="speaks only TLS on this port"):
            await ValkeyStore(f"redis://:secret@127.0.0.1:{port}").open()
    finally:
        server.stop()


async def test_nobody_there_speaks_neither() -> None:
    (port,) = free_ports(1)
    for scheme in ("valkey", "valkeys"):
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            await ValkeyStore(f"{scheme}://127.0.0.1:{port}").open()
