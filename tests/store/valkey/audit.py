"""Where a store's keys contradict each other: the laws of the package's essay, checked on everything there is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyrula_runtime.core.status import TERMINAL
from pyrula_runtime.stores.valkey.address import Address
from pyrula_runtime.stores.valkey.connection import Argument, Connection
from pyrula_runtime.stores.valkey.places import tag_of
from pyrula_runtime.stores.valkey.route import Route


def audit(address: Address, *, in_cluster: bool = False, shards: int = 1) -> list[str]:
    """Every contradiction, one sentence each."""
    route = Route(address, 5, in_cluster=in_cluster)
    route.connect("audit").socket.close()  # by which it hears where the slots are
    found: list[str] = []
    for shard in range(shards):
        tag = tag_of(address.namespace, shard)
        connection = route.connect("audit", route.node_of(tag))
        try:
            found += _Audit(connection, tag).problems()
        finally:
            connection.socket.close()
    return found


class _Audit:
    def __init__(self, connection: Connection, tag: str) -> None:
        self._connection, self._tag = connection, tag
        self._keys = sorted(key.decode().removeprefix(tag) for key in self._scan())

    def _scan(self) -> Iterator[bytes]:
        cursor: Argument = b"0"
        while True:
            cursor, keys = self._ask("SCAN", cursor, "MATCH", f"{self._tag.replace('[', '')}*", "COUNT", 1000)
            yield from keys
            if cursor == b"0":
                return

    def _ask(self, *command: Argument) -> Any:
        (reply,) = self._connection.ask([command])
        if isinstance(reply, Exception):
            raise reply
        return reply

    def _of(self, prefix: str) -> list[str]:
        return [key.removeprefix(prefix) for key in self._keys if key.startswith(prefix)]

    def _members(self, prefix: str) -> dict[str, list[str]]:
        """By id, in which sorted sets of a prefix it stands."""
        found: dict[str, list[str]] = {}
        for name in self._of(prefix):
            for member in self._ask("ZRANGE", f"{self._tag}{prefix}{name}", 0, -1):
                found.setdefault(member.decode(), []).append(name)
        return found

    def problems(self) -> Iterator[str]:
        queued, suspects = self._members("q:"), self._members("x:")
        held, listed, ended = self._members("h:"), self._members("l:"), self._members("d:")
        locked = {member.decode() for member in self._ask("ZRANGE", f"{self._tag}a", 0, -1)}
        counted = {member.decode() for member in self._ask("SMEMBERS", f"{self._tag}xs")}
        runs = self._of("r:")
        for run in runs:
            pairs = self._ask("HGETALL", f"{self._tag}r:{run}")
            facts = {pairs[at].decode(): pairs[at + 1].decode("latin-1") for at in range(0, len(pairs), 2)}
            line = f"{facts['w']}|{facts['v']}" if "v" in facts else facts["w"]
            is_suspect, ready, owner = facts.get("x") == "1", facts.get("q") == "1", facts.get("o", "")
            expected = {
                "line": [line] if ready and not is_suspect else [],
                "line of suspects": [line] if ready and is_suspect else [],
                "holder": [owner] if owner else [],
                "listing": [f"{facts['s']}:{facts['w']}"],
                "lock": [""] if owner else [],
                "count of suspects": [""] if ready and is_suspect else [],
            }
            found = {
                "line": queued.get(run, []),
                "line of suspects": suspects.get(run, []),
                "holder": held.get(run, []),
                "listing": listed.get(run, []),
                "lock": [""] if run in locked else [],
                "count of suspects": [""] if run in counted else [],
            }
            yield from (
                f"run {run}: {what} is {found[what]}, should be {expected[what]}"
                for what in expected
                if found[what] != expected[what]
            )
            if facts["s"] in TERMINAL and (ready or owner):
                yield f"run {run} is {facts['s']}, yet claimable or held"
            if facts["s"] in TERMINAL and facts.get("e") and facts["s"] not in ended.get(run, []):
                yield f"run {run} is {facts['s']}, but not among those that ended so"
            entries = self._ask("LRANGE", f"{self._tag}j:{run}", 0, -1)
            if sum(map(len, entries)) != int(facts.get("b", 0)):
                yield f"run {run} says {facts.get('b', 0)} bytes of journal, there are {sum(map(len, entries))}"
            if self._ask("EXISTS", f"{self._tag}i:{run}") != 1:
                yield f"run {run} has lost its input"
        known = set(runs)
        for what in ("i:", "o:", "j:", "m:", "ms:"):
            yield from (
                f"there is {what}{run} of a run that does not exist" for run in self._of(what) if run not in known
            )
        for run in {*queued, *suspects, *held, *listed, *locked, *counted, *ended} - known:
            yield f"run {run} is in a line, lock or listing, but does not exist"
