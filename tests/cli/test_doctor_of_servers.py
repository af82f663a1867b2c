"""What the doctor finds where servers keep the store."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from pyrula_runtime.stores.valkey.server import facts_of
from tests.cli.sites import Site
from tests.faults.keeping import kinds
from tests.store.valkey.servers import SURE, Server, shared, shared_cluster


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that this test alone uses."""
    server = Server(*SURE)
    yield server
    server.stop()


def test_a_sound_server_is_told_with_what_a_run_takes(site: Site) -> None:
    url = shared("valkey").url(os.urandom(6).hex())
    for _ in range(3):
        site.answer("submit", "order", "--store", url)
    told = site.document("doctor", "--store", url)
    (server,) = told["store"]["servers"]
    assert (server["role"], server["replicas"], server["eviction"]) == ("primary", 0, "noeviction")
    assert server["version"].startswith("Valkey ")
    assert server["keeps"] == "everysec"
    assert abs(server["ahead_ms"]) < 1_000
    assert (told["store"]["shards"], told["store"]["leases"]) == (1, {})
    assert told["store"]["weighed_runs"] == 3
    assert 300 < told["store"]["bytes_a_run"] < 3_000
    assert (told["faults"], told["warnings"]) == ([], [])
    lines = site.answer("doctor", "--store", url).splitlines()
    told_of = {line.split("  ", 1)[0]: line for line in lines}
    assert "primary with 0 replicas, writes to its disk every second, noeviction" in told_of["servers"]
    assert "a run (of 3 weighed), about" in told_of["memory"]
    assert "a million runs would take" in told_of["memory"]
    assert lines[-1] == "all is well"


def test_a_server_with_little_room_that_saves_snapshots_only_is_warned_of(site: Site, server: Server) -> None:
    url = server.url()
    site.answer("submit", "order", "--store", url)
    server.ask("CONFIG", "SET", "appendonly", "no")
    server.ask("CONFIG", "SET", "save", "60 1")
    told = server.ask("INFO", "memory")
    assert isinstance(told, bytes)
    server.ask("CONFIG", "SET", "maxmemory", round(int(facts_of(told)["used_memory"]) / 0.85))
    done = site.pyrula("doctor", "--store", url)
    assert done.returncode == 0
    saves, full = (line for line in done.stdout.splitlines() if line.startswith("warning: "))
    assert "saves snapshots only" in saves
    assert "% of its memory" in full
    assert "room for about" in done.stdout


def test_a_server_that_evicts_is_wrong(site: Site, server: Server) -> None:
    server.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    done = site.pyrula("doctor", "--store", server.url())
    assert done.returncode == 1
    (wrong,) = [line for line in done.stdout.splitlines() if line.startswith("wrong: ")]
    assert "set maxmemory-policy noeviction" in wrong


@pytest.mark.parametrize("kind", kinds("cluster"))
def test_every_primary_of_a_cluster_is_told(site: Site, kind: str) -> None:
    url = shared_cluster().url(os.urandom(6).hex())
    for _ in range(3):
        site.answer("submit", "order", "--store", url)
    told = site.document("doctor", "--store", url)
    assert [server["role"] for server in told["store"]["servers"]] == ["primary"] * 3
    assert [server["replicas"] for server in told["store"]["servers"]] == [1] * 3
    assert told["store"]["weighed_runs"] == 3
    assert told["faults"] == []
