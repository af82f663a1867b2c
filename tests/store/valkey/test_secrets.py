"""A password is told to the server and to nobody else: not in an error, not in a log, however a connect fails."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyrula_runtime.core.errors import ConfigurationError
from pyrula_runtime.stores.opening import open_store
from tests.faults.supervised import Given, Supervised
from tests.store.samples import until
from tests.store.valkey.servers import SURE, Server, free_ports

SECRET = "hidden-word"
ROOT = Path(__file__).parents[3]
APP = "tests.faults.workflows"


@pytest.mark.parametrize(
    "url",
    [
        f"redis:user:{SECRET}@here",
        f"redis//user:{SECRET}@here:1/0",
        f"user:{SECRET}@here",
        f"sqlite://user:{SECRET}@here",
        f"sqlite:///file?password={SECRET}",
        f"http://user:{SECRET}@here",
        f"valkey://user:{SECRET}@",
        f"valkey://user:{SECRET}@here:nine",
        f"valkey://user:{SECRET}@[::1",
        f"valkey://user:{SECRET}@here?namespace=:",
        f"valkey://user:to?{SECRET}@here",
        f"valkey://user:to?{SECRET}=@here",
        f"valkey://user:to#{SECRET}@here",
        f"valkey://user:to/{SECRET}@here",
        f"unix://user:{SECRET}@",
    ],
)
def test_a_url_that_cannot_be_one_is_not_repeated(url: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        open_store(url)
    assert SECRET not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.fixture(scope="module")
def urls() -> Iterator[list[str]]:
    """Where nobody is, where the password is wrong, where no TLS is spoken, where the user may do nothing."""
    (nobody,) = free_ports(1)
    (port,) = free_ports(1)
    server = Server(*SURE, port=port)
    server.ask("ACL", "SETUSER", "worker", "on", ">another", "~*", "&*", "+@all")
    server.ask("ACL", "SETUSER", "guest", "on", f">{SECRET}", "+@connection")
    yield [
        f"valkey://worker:{SECRET}@127.0.0.1:{nobody}",
        f"valkey://worker:{SECRET}@127.0.0.1:{port}",
        f"valkeys://worker:{SECRET}@127.0.0.1:{nobody}",
        f"unix://guest:{SECRET}@{server.socket}",
    ]
    server.stop()


async def said_by(*command: str, url: str) -> str:
    """All that a command says about a store, told in its environment."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("PYRULA_", "XDG_"))}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-X", "dev", "-m", "pyrula_runtime.cli", *command),
        cwd=ROOT,
        env=kept | {"PYRULA_STORE_URL": url, "PYRULA_LOG_LEVEL": "DEBUG"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    said = await process.stdout.read()
    assert await process.wait() != 0
    return said.decode()


async def test_a_command_that_cannot_connect_keeps_the_password(urls: list[str]) -> None:
    worker = ("worker", "--workflow", f"{APP}:ten")
    wrong = urls[1]
    told = await asyncio.gather(
        *[said_by(*worker, url=url) for url in urls],
        *[said_by(*command, url=wrong) for command in (("doctor",), ("submit", "ten", "{}"))],
    )
    for said in told:
        assert said
        assert SECRET not in said
        assert "Traceback" not in said


async def test_a_supervisor_that_cannot_connect_keeps_the_password(urls: list[str], tmp_path: Path) -> None:
    given = Given(store_url=urls[0], workflows=[f"{APP}:ten"], flags=["--procs", "1", "--log-level", "DEBUG"])
    supervised = Supervised(tmp_path, given)
    await supervised.start()
    try:

        async def has_told() -> bool:
            return bool(supervised.document().get("store", {}).get("fault"))

        await until(has_told)
        document = str(supervised.document())
    finally:
        await supervised.stop()
    assert SECRET not in document
    assert SECRET not in supervised.log.read_text()
