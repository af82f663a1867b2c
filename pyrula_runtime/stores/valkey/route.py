"""The way to the server that has a store's keys: on one server straight on, in a cluster by asking who has the slot.

A cluster moves slots and promotes replicas. A connection that leads to the wrong node hears so (`MOVED`, `READONLY`)
and is given up, and the next one asks again, first whom it asked last, then every node ever heard of. That is one
question more for each new connection, and none for a command; a map of the slots, which could be out of date, is kept
nowhere.
"""

from __future__ import annotations

import threading
from binascii import crc_hqx
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import hiredis

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.stores.valkey import failures
from pyrula_runtime.stores.valkey.address import Address
from pyrula_runtime.stores.valkey.connection import Connection, connect

_SLOTS = 16_384
Node = tuple[str, int]


def slot_of(tag: str) -> int:
    """The slot of all keys with this tag: the part in braces decides."""
    return crc_hqx(tag.partition("{")[2].partition("}")[0].encode(), 0) % _SLOTS


class Route:
    """How lanes and subscriptions of one handle reach their server; used by many threads."""

    def __init__(self, address: Address, connect_s: float) -> None:
        self.address = address
        self.in_cluster = False
        self.replicas = 0  # that must have a write before it is answered
        self._connect_s = connect_s
        self._slot = slot_of(address.tag)
        self._known: dict[Node, None] = {}
        self._mutex = threading.Lock()

    @property
    def place(self) -> str:
        """The server, for messages."""
        return self.address.place

    def connect(self, name: str) -> Connection:
        """A connection to whoever has the keys now. Raises StoreUnavailable or StoreRefused."""
        if not self.in_cluster:
            return connect(self.address, self._connect_s, name)
        told: StoreUnavailable | None = None
        for address in self._to_ask():
            try:
                return self._by_way_of(address, name)
            except StoreUnavailable as error:
                told = told or error
        raise told or StoreUnavailable(f"the cluster at {self.place} cannot be reached")

    def _to_ask(self) -> Iterator[Address]:
        with self._mutex:
            known = list(self._known)
        yield from (replace(self.address, host=host, port=port, path="") for host, port in reversed(known))
        yield self.address

    def _by_way_of(self, address: Address, name: str) -> Connection:
        asked = connect(address, self._connect_s, name)
        try:
            # the first command may be answered by a node that does not know yet that it was replaced; the lane hears it
            owner, nodes = self._look_up(asked)
        except BaseException:
            asked.socket.close()
            raise
        self._remember(nodes, owner)
        here = (address.host, address.port)
        if owner == here:
            return asked
        asked.socket.close()
        return connect(replace(self.address, host=owner[0], port=owner[1], path=""), self._connect_s, name)

    def _look_up(self, asked: Connection) -> tuple[Node, list[Node]]:
        try:
            (reply,) = asked.ask([("CLUSTER", "SLOTS")])
        except OSError as error:
            raise StoreUnavailable(f"the node at {asked.address.place} does not answer: {error}") from error
        if isinstance(reply, hiredis.ReplyError):
            raise failures.ours(reply, asked.address.place)
        owner, nodes = _owner(reply, self._slot, asked.address.host), _nodes(reply, asked.address.host)
        if owner is None:
            raise StoreUnavailable(
                f"nobody in the cluster at {self.place} has slot {self._slot} now; pyrula goes on when it is complete"
            )
        return owner, nodes

    def _remember(self, nodes: Iterable[Node], owner: Node) -> None:
        with self._mutex:
            for node in nodes:
                self._known[node] = None
            self._known.pop(owner, None)
            self._known[owner] = None  # the last one is asked first


def _node(told: Any, asked_host: str) -> Node:
    host = told[0].decode() if told[0] else asked_host  # a node that does not know its own name
    return host, int(told[1])


def _owner(ranges: Any, slot: int, asked_host: str) -> Node | None:
    for first, last, primary, *_ in ranges:
        if first <= slot <= last:
            return _node(primary, asked_host)
    return None


def _nodes(ranges: Any, asked_host: str) -> list[Node]:
    return [_node(told, asked_host) for _, _, *nodes in ranges for told in nodes]
