"""Whether a server is fit to keep runs: each reason against it is one sentence, and the store is not opened.

`INFO` tells nearly all of it, also where a provider forbids `CONFIG`. What passes by itself (loading, a failover under
way) is StoreUnavailable instead, and whoever opens tries again.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import hiredis

from pyrula_runtime.core.errors import StoreRefused, StoreUnavailable
from pyrula_runtime.stores.valkey import failures
from pyrula_runtime.stores.valkey.address import Address
from pyrula_runtime.stores.valkey.connection import Connection
from pyrula_runtime.stores.valkey.route import Route
from pyrula_runtime.stores.valkey.scripts import Script, scripts
from pyrula_runtime.stores.valkey.settings import Settings
from pyrula_runtime.stores.valkey.tls import misunderstanding

log = logging.getLogger(__name__)
SCHEMA = 1
OLDEST = (6, 0)
# what every worker and client calls; a server gets any other script when it is called for the first time
AT_ONCE = ("append", "arm", "begin", "claim", "commit", "read", "renew", "submit")
_PROBE = b"return 1"


def examine(route: Route, settings: Settings) -> tuple[Connection, str]:
    """Connect and look at the server; the connection, and the command that publishes there.

    StoreRefused or StoreUnavailable if it will not do.
    """
    connection = _reach(route)
    try:
        facts = _told(connection)
        if route.is_to_be_asked and _is_cluster(facts) and not route.in_cluster:
            route.in_cluster = True
            connection.socket.close()
            connection = route.connect("pyrula")
            facts = _told(connection)
        publish = "SPUBLISH" if route.in_cluster and _is_cluster(facts) and _version(facts) >= (7, 0) else "PUBLISH"
        loaded = scripts(guarded=settings.guarded, publish=publish)
        _examine(route, connection, facts, [loaded[name] for name in AT_ONCE])
        _want_replicas(route, connection, facts)
        if route.in_cluster:
            _examine_others(route, connection)
    except OSError as error:
        connection.socket.close()
        raise StoreUnavailable(f"the store at {route.place} does not answer: {error}") from error
    except BaseException:
        connection.socket.close()
        raise
    return connection, publish


def _reach(route: Route) -> Connection:
    try:
        return route.connect("pyrula")
    except StoreUnavailable as error:
        if told := misunderstanding(route.address):
            raise told from error
        raise


def _told(connection: Connection) -> Mapping[str, str]:
    (told,) = connection.ask([("INFO",)])
    if isinstance(told, hiredis.ReplyError):
        raise failures.ours(told, connection.address.place)
    return facts_of(told)


def _examine(route: Route, connection: Connection, facts: Mapping[str, str], at_once: Iterable[Script]) -> None:
    address = connection.address
    save, fsync, probe, *_ = connection.ask(
        [
            ("CONFIG", "GET", "save"),
            ("CONFIG", "GET", "appendfsync"),
            ("EVAL", _PROBE, 1, address.tag),
            *(("SCRIPT", "LOAD", script.text) for script in at_once),
        ]
    )
    if not route.in_cluster and isinstance(probe, hiredis.ReplyError) and failures.code_of(probe) == failures.MOVED:
        raise StoreRefused(
            f"the server at {address.place} is a node of a cluster, and others have some of the keys ({probe}); open "
            f"the store with cluster=True"
        )
    _judge(address, facts, save, fsync, probe)


def _examine_others(route: Route, first: Connection) -> None:
    """Runs are on all nodes of a cluster; one that gives no answer now is heard of when something is asked of it."""
    for node in route.nodes() - {(first.address.host, first.address.port)}:
        with suppress(StoreUnavailable, OSError):
            connection = route.connect("pyrula", node)
            try:
                save, fsync = connection.ask([("CONFIG", "GET", "save"), ("CONFIG", "GET", "appendfsync")])
                facts = _told(connection)
                _judge(connection.address, facts, save, fsync)
                _want_replicas(route, connection, facts)
            finally:
                connection.socket.close()


def _want_replicas(route: Route, connection: Connection, facts: Mapping[str, str]) -> None:
    """With the strict profile, a server that has a replica answers nothing that the replica has not."""
    if route.address.strict:
        node = (connection.address.host, connection.address.port) if route.in_cluster else None
        route.wants_replicas(node, min(1, int(facts.get("connected_slaves", "0"))))


def _judge(address: Address, facts: Mapping[str, str], save: Any, fsync: Any, probe: Any = b"") -> None:
    """Raise what speaks against a server, warn of what an operator should know."""
    if facts.get("loading", "0") != "0":
        raise StoreUnavailable(f"the store at {address.place} is still reading its data; pyrula goes on by itself")
    is_passing = failures.passes(probe)
    found = faults_of(facts, save, b"" if is_passing else probe, address)
    for fault in (*found, *(_lax(facts, fsync) if address.strict else ())):
        raise StoreRefused(f"the server at {address.place} {fault}")
    if is_passing:
        raise failures.ours(probe, address.place)
    for warning in warnings_of(facts):
        log.warning("the server at %s %s", address.place, warning)


def _is_cluster(facts: Mapping[str, str]) -> bool:
    return facts.get("cluster_enabled", "0") != "0"


def _version(facts: Mapping[str, str]) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", facts.get("redis_version", "0"))[:2]))


def facts_of(info: bytes) -> dict[str, str]:
    """The lines of `INFO`."""
    lines = (line.partition(":") for line in info.decode("utf-8", "replace").splitlines())
    return {name: value for name, colon, value in lines if colon}


def faults_of(facts: Mapping[str, str], save: Any, probe: Any, address: Address) -> Iterator[str]:
    """Why this server must not keep runs."""
    if _version(facts) < OLDEST:
        yield f"is version {facts.get('redis_version')}; pyrula needs Redis 6.0 or Valkey 7.2, or newer"
    if facts.get("role", "master") != "master":
        yield "is a replica; put the address of its primary into the store URL"
    policy = facts.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        yield f"would delete runs when its memory is full (maxmemory-policy {policy}); set maxmemory-policy noeviction"
    if not (_keeps(facts, save) or address.unverified):
        yield (
            "keeps nothing when it stops; set appendonly yes, or, if you know that it persists by other means, put "
            "persistence=unverified into the store URL"
        )
    if isinstance(probe, hiredis.ReplyError):
        yield f"does not let this user run scripts ({probe}); pyrula needs EVAL, EVALSHA and SCRIPT LOAD"


def _keeps(facts: Mapping[str, str], save: Any) -> bool:
    return facts.get("aof_enabled", "0") != "0" or (isinstance(save, list) and len(save) > 1 and bool(save[1]))


def _lax(facts: Mapping[str, str], fsync: Any) -> Iterator[str]:
    """Why a server does not keep the strict profile."""
    always = isinstance(fsync, list) and len(fsync) > 1 and fsync[1] == b"always"
    if facts.get("aof_enabled", "0") == "0" or not always:
        yield "does not write to its disk before it answers, as durability=strict wants; set appendfsync always"


def warnings_of(facts: Mapping[str, str]) -> Iterator[str]:
    """What an operator should know, though it works."""
    if facts.get("aof_enabled", "0") == "0":
        yield "saves snapshots only: what happened since the last one is lost when it is killed; set appendonly yes"
    if facts.get("aof_last_write_status", "ok") != "ok":
        yield "could not write its append-only file the last time; see its log"


def check_schema(address: Address) -> Callable[[bytes], None]:
    """What to make of the version of the store's layout."""

    def check(found: bytes) -> None:
        if int(found) != SCHEMA:
            raise StoreRefused(
                f"namespace {address.namespace!r} at {address.place} was written in layout {int(found)}, this pyrula "
                f"knows {SCHEMA}; use the pyrula it was made with, or another namespace"
            )

    return check
