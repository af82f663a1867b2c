"""Where a store's keys contradict each other: the laws of the package's essay, checked on everything there is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import orjson

from pyrula_runtime.core.status import TERMINAL
from pyrula_runtime.stores.valkey.address import Address
from pyrula_runtime.stores.valkey.connection import Argument, Connection
from pyrula_runtime.stores.valkey.places import tag_of
from pyrula_runtime.stores.valkey.route import Route


def audit(address: Address, *, in_cluster: bool = False, shards: int = 1) -> list[str]:
    """Every contradiction, one sentence each."""
    route = Route(address, 5, in_cluster=in_cluster)
    route.connect("audit").socket.close()  # by which it hears where the slots are
    tags = [tag_of(address.namespace, shard) for shard in range(shards)]
    found: list[str] = []
    for node in {route.node_of(tag) for tag in tags}:
        connection = route.connect("audit", node)
        try:
            there = _scan(connection, address.namespace)
            for tag in tags:
                if route.node_of(tag) == node:
                    keys = _Keys(connection, tag, there)
                    found += [*_Runs(keys).problems(), *_waiting(keys), *_events(keys)]
        finally:
            connection.socket.close()
    return found


def _scan(connection: Connection, namespace: str) -> list[str]:
    cursor: Argument = b"0"
    found: list[str] = []
    while True:
        ((cursor, keys),) = connection.ask([("SCAN", cursor, "MATCH", f"py:{{{namespace}:*", "COUNT", 5000)])
        found += [key.decode() for key in keys]
        if cursor == b"0":
            return found


class _Keys:
    """What stands under a tag."""

    def __init__(self, connection: Connection, tag: str, there: list[str]) -> None:
        self._connection, self._tag = connection, tag
        self._keys = sorted(key.removeprefix(tag) for key in there if key.startswith(tag))

    def _ask(self, *command: Argument) -> Any:
        (reply,) = self._connection.ask([command])
        if isinstance(reply, Exception):
            raise reply
        return reply

    def ask(self, command: str, key: str, *args: Argument) -> Any:
        """A command on one key."""
        return self._ask(command, f"{self._tag}{key}", *args)

    def of(self, prefix: str) -> list[str]:
        """What follows a prefix in the keys that have it."""
        return [key.removeprefix(prefix) for key in self._keys if key.startswith(prefix)]

    def hash(self, key: str) -> dict[str, str]:
        """The fields of a hash."""
        pairs = self.ask("HGETALL", key)
        return {pairs[at].decode(): pairs[at + 1].decode("latin-1") for at in range(0, len(pairs), 2)}

    def members(self, key: str, command: str = "ZRANGE") -> list[str]:
        """The members of a sorted set, in order, or of a set."""
        bounds: tuple[Argument, ...] = (0, -1) if command == "ZRANGE" else ()
        return [member.decode() for member in self.ask(command, key, *bounds)]

    def where(self, prefix: str, skip: int = 0) -> dict[str, list[str]]:
        """By id, in which sorted sets of a prefix it stands; an id begins after `skip` characters."""
        found: dict[str, list[str]] = {}
        for name in self.of(prefix):
            for member in self.members(f"{prefix}{name}"):
                found.setdefault(member[skip:], []).append(name)
        return found

    def runs(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Every run with its fields."""
        for run in self.of("r:"):
            yield run, self.hash(f"r:{run}")


_PLACE = 11  # characters before the id, in a sorted set by time


class _Runs:
    """Each run stands where its fields say, and nowhere else."""

    def __init__(self, keys: _Keys) -> None:
        self._keys = keys
        self._where = {
            "line": keys.where("q:"),
            "line of suspects": keys.where("x:"),
            "holder": keys.where("h:"),
            "listing": keys.where("l:"),
            "listing of children": keys.where("lp:"),
            "listing of a schedule's": keys.where("lf:"),
            "lock": {run: [""] for run in keys.members("a")},
            "count of suspects": {run: [""] for run in keys.members("xs", "SMEMBERS")},
        }

        self._ended = keys.where("d:")

    def problems(self) -> Iterator[str]:
        known = set()
        for run, facts in self._keys.runs():
            known.add(run)
            expected = _expected(facts)
            for what, where in self._where.items():
                if where.get(run, []) != expected[what]:
                    yield f"run {run}: {what} is {where.get(run, [])}, should be {expected[what]}"
            if facts["s"] in TERMINAL and (facts.get("q") == "1" or facts.get("o")):
                yield f"run {run} is {facts['s']}, yet claimable or held"
            if facts["s"] in TERMINAL and facts.get("e") and facts["s"] not in self._ended.get(run, []):
                yield f"run {run} is {facts['s']}, but not among those that ended so"
            entries = self._keys.ask("LRANGE", f"j:{run}", 0, -1)
            if sum(map(len, entries)) != int(facts.get("b", 0)):
                yield f"run {run} says {facts.get('b', 0)} bytes of journal, there are {sum(map(len, entries))}"
            if self._keys.ask("EXISTS", f"i:{run}") != 1:
                yield f"run {run} has lost its input"
        for what in ("i:", "o:", "j:", "m:", "ms:", "f:"):
            yield from (
                f"there is {what}{run} of a run that does not exist" for run in self._keys.of(what) if run not in known
            )
        for what, where in {**self._where, "time of an end": self._ended}.items():
            yield from (f"run {run} has a {what}, but does not exist" for run in where.keys() - known)


def _expected(facts: dict[str, str]) -> dict[str, list[str]]:
    """Where a run should stand."""
    workflow = facts["w"].partition("|")[0]
    is_suspect, ready, owner = facts.get("x") == "1", facts.get("q") == "1", facts.get("o", "")
    _, parent, schedule, *_ = orjson.loads(facts["i"].encode("latin-1")) if "i" in facts else (1, "", "")
    return {
        "line": [facts["w"]] if ready and not is_suspect else [],
        "line of suspects": [facts["w"]] if ready and is_suspect else [],
        "holder": [owner] if owner else [],
        "listing": [f"{facts['s']}:{workflow}"],
        "listing of children": [f"{facts['s']}:{parent}"] if parent else [],
        "listing of a schedule's": [f"{facts['s']}:{schedule}"] if schedule else [],
        "lock": [""] if owner else [],
        "count of suspects": [""] if ready and is_suspect else [],
    }


def _waiting(keys: _Keys) -> Iterator[str]:
    """Who waits for a time or a message does nothing else, and what came and what is pinned is counted."""
    timers = keys.where("t:", _PLACE)
    pinned: Counter[str] = Counter()
    for run, facts in keys.runs():
        times = timers.pop(run, [])
        if (times or "h" in facts) and (facts.get("q") == "1" or facts.get("o")):
            yield f"run {run} waits, yet is claimable or held"
        if times not in ([], [facts["s"]]):
            yield f"run {run} is {facts['s']}, its time is among those of {times}"
        came, ids = int(facts.get("c", 0)) // 2, keys.ask("SCARD", f"ms:{run}")
        if came != ids:
            yield f"run {run} says {came} messages, {ids} ids are remembered"
        if keys.ask("ZCOUNT", f"m:{run}", 1, came) != keys.ask("ZCARD", f"m:{run}"):
            yield f"run {run} has messages whose numbers are not from 1 to {came}"
        if "|" in facts["w"] and facts["s"] not in TERMINAL:
            pinned[facts["w"]] += 1
    yield from (f"run {run} has a time, but does not exist" for run in timers)
    if (counted := {line: int(number) for line, number in keys.hash("pv").items()}) != pinned:
        yield f"runs are pinned so: {dict(pinned)}, and counted so: {counted}"
    if keys.of("t:") and keys.ask("GET", "ta") is None:
        yield "runs wait for times, and nobody was told to look"
    for schedule in keys.members("sn"):
        if ":" not in keys.hash("sr").get(schedule, ""):
            yield f"schedule {schedule} has a next time, but does not exist"


def _events(keys: _Keys) -> Iterator[str]:
    """An event stands with those who have still to take it, with the deferred ones, or with those that may go."""
    pending, all_pending = keys.where("ep:"), keys.members("ep")
    deferred, settled = keys.where("ed:"), {member[_PLACE:] for member in keys.members("ex")}
    known = keys.of("e:")
    for event in known:
        facts = keys.hash(f"e:{event}")
        takers = facts.get("w", "").strip("|").split("|") if facts.get("w", "|") != "|" else []
        if sorted(pending.get(event, [])) != sorted(takers):
            yield f"event {event} is for {takers}, it stands with {pending.get(event, [])}"
        if deferred.get(event, []) != ([] if "w" in facts else [facts["n"]]):
            yield f"event {event} is deferred {deferred.get(event, [])}, its takers are {facts.get('w')}"
        if (event in settled) != (facts.get("w") == "|") or (event in settled) == (event in all_pending):
            yield f"event {event} with takers {facts.get('w')} is both to be taken and to be forgotten, or neither"
    for event in {*pending, *all_pending, *deferred, *settled}.difference(known):
        yield f"event {event} stands somewhere, but does not exist"
    for workflow in keys.of("ew:"):
        for name in keys.members(f"ew:{workflow}", "SMEMBERS"):
            if not keys.ask("SISMEMBER", f"en:{name}", workflow):
                yield f"{workflow} is subscribed to {name}, which does not know it"
