"""The way to the server that has a shard's keys: on one server straight on, in a cluster by the slot of the tag.

A cluster moves slots and promotes replicas. So the map of who has which slot is read with each new connection, first
from the node that is wanted, then from every node ever heard of; a node that says `MOVED` corrects it for that slot.
A map that is out of date costs one refused call, never a wrong one: nodes run nothing on keys that are not theirs.
"""

from __future__ import annotations

import threading
from binascii import crc_hqx
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

import hiredis

from pyrula_runtime.core.errors import StoreRefused, StoreUnavailable
from pyrula_runtime.stores.valkey import failures
from pyrula_runtime.stores.valkey.address import Address
from pyrula_runtime.stores.valkey.connection import Connection, connect

_SLOTS = 16_384
Node = tuple[str, int]


@lru_cache(4096)
def slot_of(tag: str) -> int:
    """The slot of all keys with this tag: the part in braces decides."""
    return crc_hqx(tag.partition("{")[2].partition("}")[0].encode(), 0) % _SLOTS


class Route:
    """How lanes and subscriptions of one handle reach their servers; used by many threads.

    `in_cluster` None: whoever opens the store asks the server.
    """

    def __init__(self, address: Address, connect_s: float, *, in_cluster: bool | None = None) -> None:
        self.address = address
        self.in_cluster, self.is_to_be_asked = bool(in_cluster), in_cluster is None
        self._replicas: dict[Node | None, int] = {}  # of each server, that must have a write before it is answered
        self._connect_s = connect_s
        self._owners: tuple[tuple[int, int, Node], ...] = ()  # first and last slot of each, as far as known
        self._known: dict[Node, None] = {}  # every node ever heard of, the last one that answered at the end
        self._mutex = threading.Lock()

    @property
    def place(self) -> str:
        """The server, for messages."""
        return self.address.place

    def node_of(self, tag: str) -> Node | None:
        """Who has this tag, as far as is known; None is whoever the address leads to."""
        if not self.in_cluster:
            return None
        return self._owner(slot_of(tag))

    def _owner(self, slot: int) -> Node | None:
        return next((node for first, last, node in self._owners if first <= slot <= last), None)

    def nodes(self) -> frozenset[Node | None]:
        """All who have slots."""
        return frozenset(node for _, _, node in self._owners) if self.in_cluster else frozenset([None])

    def connect(self, name: str, node: Node | None = None) -> Connection:
        """A connection to this node, or to whoever has the first shard now. Raises StoreUnavailable or StoreRefused."""
        if not self.in_cluster:
            return connect(self.address, self._connect_s, name)
        told: StoreUnavailable | None = None
        for address in self._to_ask(node):
            try:
                return self._by_way_of(address, name, node)
            except StoreUnavailable as error:
                told = told or error
        raise told or StoreUnavailable(f"the cluster at {self.place} cannot be reached")

    def wants_replicas(self, node: Node | None, count: int) -> None:
        """So many replicas of this server must have a write before it is answered."""
        self._replicas[node] = count

    def replicas_of(self, node: Node | None) -> int:
        """How many replicas of this server must have a write before it is answered.

        A server that was not looked at has taken slots from one that was: it must have as many as any.
        """
        known = self._replicas.get(node)
        return max(self._replicas.values(), default=0) if known is None else known

    def moved(self, told: str) -> None:
        """Take note of a `MOVED slot host:port`."""
        words = told[told.find("MOVED ") :].split()
        if len(words) < 3 or not words[1].isdecimal():
            return
        host, _, port = words[2].rpartition(":")
        slot, node = int(words[1]), (host or self.address.host, int(port))
        with self._mutex:
            if self._owner(slot) != node:  # each call that was under way says it
                self._owners = ((slot, slot, node), *self._owners)
            self._known.setdefault(node)

    def _to_ask(self, node: Node | None) -> Iterator[Address]:
        with self._mutex:
            known = [each for each in self._known if each != node]
        if node is not None:
            yield self._at(node)
        yield from map(self._at, reversed(known))
        yield self.address

    def _at(self, node: Node) -> Address:
        return replace(self.address, host=node[0], port=node[1], path="")

    def _by_way_of(self, address: Address, name: str, node: Node | None) -> Connection:
        asked = connect(address, self._connect_s, name)
        try:
            # the first command may be answered by a node that does not know yet that it was replaced; the lane hears it
            self._look_up(asked)
        except BaseException:
            asked.socket.close()
            raise
        wanted = node or self.node_of(self.address.tag)
        if wanted == (address.host, address.port) and wanted in self.nodes():
            return asked
        asked.socket.close()
        if wanted is None or wanted not in self.nodes():
            raise StoreUnavailable(
                f"nobody in the cluster at {self.place} has the keys now that {_called(wanted)} had; pyrula goes on "
                f"with whoever gets them"
            )
        return connect(self._at(wanted), self._connect_s, name)

    def _look_up(self, asked: Connection) -> None:
        try:
            (reply,) = asked.ask([("CLUSTER", "SLOTS")])
        except OSError as error:
            raise StoreUnavailable(f"the node at {asked.address.place} does not answer: {error}") from error
        if isinstance(reply, hiredis.ReplyError) and failures.code_of(reply) == "ERR":
            raise StoreRefused(
                f"the server at {asked.address.place} is in no cluster ({reply}); if it stands alone, leave out "
                f"cluster=True"
            )
        if isinstance(reply, hiredis.ReplyError):
            raise failures.ours(reply, asked.address.place)
        host = asked.address.host
        owners = tuple((first, last, _node(primary, host)) for first, last, primary, *_ in reply)
        here = (host, asked.address.port)
        with self._mutex:
            self._owners = owners
            for _, _, *nodes in reply:
                for told in nodes:
                    self._known.setdefault(_node(told, host))
            self._known.pop(here, None)
            self._known[here] = None  # the last one that answered is asked first


def _called(node: Node | None) -> str:
    return "it" if node is None else f"{node[0]}:{node[1]}"


def _node(told: Any, asked_host: str) -> Node:
    host = told[0].decode() if told[0] else asked_host  # a node that does not know its own name
    return host, int(told[1])
