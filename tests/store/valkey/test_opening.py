"""Addresses, and the servers that are refused: one clear sentence each, and never a secret in it."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from pyrula_runtime.core.errors import ConfigurationError, StoreRefused, StoreUnavailable
from pyrula_runtime.stores.opening import open_store
from pyrula_runtime.stores.protocol import RunQuery
from pyrula_runtime.stores.valkey import server as checks
from pyrula_runtime.stores.valkey.address import Address, Tls, parse
from pyrula_runtime.stores.valkey.route import slot_of
from pyrula_runtime.stores.valkey.store import ValkeyStore
from tests.store.samples import new_run
from tests.store.valkey.servers import KEEPS, Server, free_ports

Opened = Callable[..., Awaitable[ValkeyStore]]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("valkey://here", Address(host="here")),
        ("redis://here:7000/3", Address(host="here", port=7000, db=3)),
        ("valkey://here?db=4&namespace=a.b", Address(host="here", db=4, namespace="a.b")),
        ("valkey://:p%40ss@[::1]:1", Address(host="::1", port=1, password="p@ss")),
        ("rediss://u:p@here", Address(host="here", user="u", password="p", tls=Tls())),
        (
            "valkeys://here?ssl_ca_certs=/ca&ssl_certfile=/c&ssl_keyfile=/k&ssl_cert_reqs=none",
            Address(host="here", tls=Tls(ca_certs="/ca", certfile="/c", keyfile="/k", verify=False)),
        ),
        ("unix:///run/v%20k.sock?db=2", Address(path="/run/v k.sock", db=2)),
        ("valkey://here?persistence=unverified", Address(host="here", unverified=True)),
    ],
)
def test_an_address_is_read_from_its_url(url: str, expected: Address) -> None:
    assert parse(url) == expected


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("valkey://", "names no server"),
        ("unix://", "names no server"),
        ("unix://host/path", "names no server"),
        ("valkey://u:secret@here:nine", "port that is not a number"),
        ("valkey://u:secret@here/zero", "database that is not a number"),
        ("valkey://u:secret@here?timeout=3", "parameters that are not known: timeout"),
        ("valkey://u:secret@here?namespace=a:b", "namespace that is not"),
        ("valkey://u:secret@here?namespace=", "namespace that is not"),
        ("valkeys://u:secret@here?ssl_cert_reqs=maybe", "ssl_cert_reqs"),
        ("valkey://u:secret@here?persistence=maybe", "persistence"),
    ],
)
def test_an_address_that_cannot_be_one_is_refused_in_a_sentence(url: str, says: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        open_store(url)
    assert says in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_secret_shows_nowhere() -> None:
    store = open_store("rediss://user:secret@here:7000/3?namespace=n")
    assert store.url == "valkeys://here:7000/3?namespace=n"
    assert "secret" not in f"{store.identity} {parse('valkey://user:secret@here')!r}"
    assert parse(store.url).host == "here"


def test_namespaces_databases_and_servers_are_different_stores() -> None:
    urls = ("valkey://a", "valkey://a/1", "valkey://b", "valkey://a?namespace=n", "valkey://a:1", "unix:///a")
    assert len({open_store(url).identity for url in urls}) == len(urls)
    assert open_store("redis://a:6379/0").identity == open_store("valkeys://u:p@a").identity


async def test_two_namespaces_on_one_server_never_meet(opened: Opened, server: Server) -> None:
    first, second = await opened(server.address("one")), await opened(server.address("two"))
    run = new_run()
    await first.submit(run)
    assert await second.read(run.run_id) is None
    assert await second.find(RunQuery()) == ()
    assert (await first.counts(), await second.counts()) == ({("order", "queued"): 1}, {})
    assert await first.read(run.run_id) is not None


async def test_nobody_there_is_unavailable_and_not_refused(tmp_path: Path) -> None:
    store = open_store(f"unix://{tmp_path}/none")
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        await store.open()


REFUSED = [
    (("--save", "", "--appendonly", "no"), "keeps nothing when it stops"),
    ((*KEEPS, "--maxmemory-policy", "allkeys-lru"), "maxmemory-policy allkeys-lru"),
    ((*KEEPS, "--maxmemory-policy", "volatile-ttl"), "would delete runs"),
    ((*KEEPS, "--replicaof", "127.0.0.1 1"), "is a replica"),
    ((*KEEPS, "--requirepass", "secret"), "wants a password"),
]


@pytest.mark.parametrize(("args", "says"), REFUSED)
async def test_a_server_unfit_to_keep_runs_is_refused(args: tuple[str, ...], says: str) -> None:
    server = Server(*args)
    try:
        with pytest.raises(StoreRefused) as refused:
            await ValkeyStore(server.url()).open()
    finally:
        server.stop()
    assert says in str(refused.value)
    assert str(server.socket) in str(refused.value)
    assert "secret" not in str(refused.value)


async def test_a_cluster_that_is_not_complete_is_waited_for() -> None:
    server = Server(*KEEPS, "--cluster-enabled", "yes")
    try:
        with pytest.raises(StoreUnavailable, match="nobody in the cluster"):
            await ValkeyStore(server.url()).open()
    finally:
        server.stop()


async def test_a_cluster_that_lacks_other_slots_is_waited_for_and_no_right_is_blamed() -> None:
    port, bus = free_ports(2)
    server = Server(*KEEPS, "--cluster-enabled", "yes", "--cluster-port", str(bus), port=port)
    try:
        server.ask("CLUSTER", "ADDSLOTS", slot_of(server.address().tag))
        with pytest.raises(StoreUnavailable, match="its cluster is not complete"):
            await ValkeyStore(f"valkey://127.0.0.1:{port}").open()
    finally:
        server.stop()


async def test_an_operator_may_vouch_for_persistence() -> None:
    server = Server("--save", "", "--appendonly", "no")
    try:
        store = ValkeyStore(f"{server.url()}&persistence=unverified")
        await store.open()
        await store.close()
    finally:
        server.stop()


async def test_snapshots_alone_are_accepted_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("--save", "60 1", "--appendonly", "no")
    try:
        with caplog.at_level(logging.WARNING):
            store = ValkeyStore(server.url())
            await store.open()
            await store.close()
    finally:
        server.stop()
    assert "saves snapshots only" in caplog.text


async def test_a_user_with_just_the_rights_that_are_needed(server: Server) -> None:
    rules = ("on", ">secret", "~py:*", "&py:*", "+@all", "-@dangerous", "+info")
    server.ask("ACL", "SETUSER", "worker", *rules)
    store = ValkeyStore(f"unix://worker:secret@{server.socket}")
    assert store.url.startswith("unix:///")
    await store.open()
    await store.submit(new_run())
    await store.close()


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        (("-@scripting",), "does not let this user run scripts"),
        (("-info",), "does not permit this user"),
        (("resetkeys", "~other:*"), "does not"),
        (("resetchannels", "&other:*"), "does not permit"),
    ],
)
async def test_a_user_without_the_rights_is_told_which(server: Server, rules: tuple[str, ...], says: str) -> None:
    server.ask("ACL", "SETUSER", "worker", "on", ">secret", "~*", "&*", "+@all", *rules)
    with pytest.raises(StoreRefused) as refused:
        await ValkeyStore(f"unix://worker:secret@{server.socket}").open()
    assert says in str(refused.value)
    assert "secret" not in str(refused.value)


async def test_a_wrong_password_is_refused(server: Server) -> None:
    server.ask("ACL", "SETUSER", "worker", "on", ">secret", "~*", "&*", "+@all")
    with pytest.raises(StoreRefused, match="does not accept this user and password"):
        await ValkeyStore(f"unix://worker:wrong@{server.socket}").open()


async def test_a_store_in_a_newer_layout_is_left_alone(server: Server) -> None:
    store = ValkeyStore(server.url())
    await store.open()
    await store.close()
    server.ask("HSET", f"{server.address().tag}c", "v", checks.SCHEMA + 1)
    with pytest.raises(StoreRefused, match=f"layout {checks.SCHEMA + 1}"):
        await store.open()


def test_an_old_server_is_refused() -> None:
    facts = {"redis_version": "5.0.14", "aof_enabled": "1"}
    assert [*checks.faults_of(facts, [], 0, Address(host="h"))] == [
        "is version 5.0.14; pyrula needs Redis 6.0 or Valkey 7.2, or newer"
    ]


def test_a_user_of_sqlite_loads_nothing_of_it() -> None:
    asks = (
        "import sys; from pyrula_runtime.stores.opening import open_store; open_store('sqlite:////tmp/a.db');"
        "sys.exit(bool({'hiredis', 'redis', 'pyrula_runtime.stores.valkey.store'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", asks], check=False).returncode == 0
