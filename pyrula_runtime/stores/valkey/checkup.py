"""What an operator should know of the servers that keep a store: `pyrula doctor` asks for it, and nothing else does.

It only reads: what a server says of itself, its clock beside this host's, and what a run takes there, weighed on the
youngest runs, key by key. What a provider does not let its users ask is left out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import hiredis

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.stores.protocol import RunRecord
from pyrula_runtime.stores.valkey.connection import Argument, Connection
from pyrula_runtime.stores.valkey.places import shard_of_run
from pyrula_runtime.stores.valkey.route import Node
from pyrula_runtime.stores.valkey.server import facts_of, faults_of, warnings_of
from pyrula_runtime.stores.valkey.store import ValkeyStore

# what a server does with its writes -> what it is called
KEEPING = {
    "always": "writes to its disk before it answers",
    "everysec": "writes to its disk every second",
    "no": "leaves it to the system when its disk is written",
    "snapshots": "saves snapshots only",
    "": "keeps nothing that it tells of",
}
# keys that a run may have, and lists in which each run has an entry
_KEYS = ("r:", "i:", "o:", "j:", "m:", "ms:", "f:")
# a clock that is off by less is as good as right (milliseconds), and memory is short from this share on
_OFF_MS = 1_000
_SHORT = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One server as it describes itself; `limit_bytes` is 0 without a limit, `ahead_ms` its clock less this host's."""

    place: str
    version: str
    role: str
    replicas: int
    keeps: str
    eviction: str
    used_bytes: int
    limit_bytes: int
    ahead_ms: int
    faults: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """What a run takes in memory, on average of so many that were weighed, its places in lists included."""

    runs: int
    bytes_a_run: int


def servers_of(store: ValkeyStore) -> tuple[Server, ...]:
    """All servers that have keys of an open store. Raises StoreUnavailable."""
    return tuple(_look(store, node) for node in sorted(store.route.nodes(), key=str))


def weigh(store: ValkeyStore, runs: Sequence[RunRecord]) -> Weight | None:
    """What these runs take; None if there are none, or the servers do not tell. Raises StoreUnavailable."""
    by_node: dict[Node | None, list[RunRecord]] = {}
    for run in runs:
        by_node.setdefault(store.route.node_of(_tag_of(store, run)), []).append(run)
    weights = [_weigh_at(store, node, here) for node, here in by_node.items()]
    if not weights or None in weights:
        return None
    return Weight(runs=len(runs), bytes_a_run=round(sum(filter(None, weights)) / len(runs)))


def _tag_of(store: ValkeyStore, run: RunRecord) -> str:
    return store.tag(shard_of_run(run.run_id))


@contextmanager
def _at(store: ValkeyStore, node: Node | None) -> Iterator[Connection]:
    connection = store.route.connect("pyrula-doctor", node)
    try:
        yield connection
    except OSError as error:
        raise StoreUnavailable(f"the store at {connection.address.place} does not answer: {error}") from error
    finally:
        connection.socket.close()


def _look(store: ValkeyStore, node: Node | None) -> Server:
    with _at(store, node) as connection:
        info, save, fsync = connection.ask([("INFO",), ("CONFIG", "GET", "save"), ("CONFIG", "GET", "appendfsync")])
        ahead_ms = _ahead_ms(connection)
    facts, address = facts_of(info) if isinstance(info, bytes) else {}, connection.address
    used, limit = int(facts.get("used_memory", "0")), int(facts.get("maxmemory", "0"))
    return Server(
        place=address.place,
        version=_version(facts),
        role={"master": "primary", "slave": "replica"}.get(facts.get("role", ""), "server"),
        replicas=int(facts.get("connected_slaves", "0")),
        keeps=_keeps(facts, save, fsync),
        eviction=facts.get("maxmemory_policy", ""),
        used_bytes=used,
        limit_bytes=limit,
        ahead_ms=ahead_ms,
        faults=tuple(faults_of(facts, save, b"", address)),
        warnings=(*warnings_of(facts), *_of_clock(ahead_ms), *_of_memory(used, limit)),
    )


def _ahead_ms(connection: Connection) -> int:
    """The server's clock less ours, as of the middle of the question."""
    before_ns = time.time_ns()
    (told,) = connection.ask([("TIME",)])
    middle_ms = (before_ns + time.time_ns()) // 2_000_000
    return int(told[0]) * 1000 + int(told[1]) // 1000 - middle_ms if isinstance(told, list) else 0


def _version(facts: Mapping[str, str]) -> str:
    valkey = facts.get("valkey_version")
    return f"Valkey {valkey}" if valkey else f"Redis {facts.get('redis_version', 'of an unknown version')}"


def _keeps(facts: Mapping[str, str], save: Any, fsync: Any) -> str:
    if facts.get("aof_enabled", "0") != "0":
        return fsync[1].decode() if isinstance(fsync, list) and len(fsync) > 1 else "everysec"
    return "snapshots" if isinstance(save, list) and len(save) > 1 and save[1] else ""


def _of_clock(ahead_ms: int) -> Iterator[str]:
    if abs(ahead_ms) >= _OFF_MS:
        way = "ahead of" if ahead_ms > 0 else "behind"
        yield (
            f"has a clock that is {abs(ahead_ms) / 1000:.1f} s {way} this host's; timers and the times that are shown "
            f"go by the server's; let both follow a time server"
        )


def _of_memory(used: int, limit: int) -> Iterator[str]:
    if limit and used > _SHORT * limit:
        yield (
            f"uses {used / limit:.0%} of its memory; when that is full, new runs are refused until others end and go: "
            f"raise maxmemory, or let ended runs go (retention)"
        )


def _weigh_at(store: ValkeyStore, node: Node | None, runs: Sequence[RunRecord]) -> float | None:
    """The bytes of these runs, which live on one server."""
    keys = [f"{_tag_of(store, run)}{kind}{run.run_id}" for run in runs for kind in _KEYS]
    tags_and_runs = [(_tag_of(store, run), run) for run in runs]
    lists = {f"{tag}l:{run.status}:{run.workflow}" for tag, run in tags_and_runs}
    lists |= {f"{tag}d:{run.status}" for tag, run in tags_and_runs if run.finished_ms is not None}
    questions: list[tuple[Argument, ...]] = [("MEMORY", "USAGE", key) for key in (*keys, *sorted(lists))]
    questions += [("ZCARD", key) for key in sorted(lists)]
    with _at(store, node) as connection:
        told = connection.ask(questions)
    if any(isinstance(each, hiredis.ReplyError) for each in told):
        return None
    of_keys, of_lists, entries = told[: len(keys)], told[len(keys) : -len(lists)], told[-len(lists) :]
    # a run stands in one list of its workflow and, once it has ended, in one of all that ended so
    places = len(runs) + sum(run.finished_ms is not None for run in runs)
    in_lists = sum(each or 0 for each in of_lists) / max(sum(entries), 1) * places
    return float(sum(each or 0 for each in of_keys) + in_lists)
