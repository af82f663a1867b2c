"""The map of a cluster, as far as it is kept by hand."""

from __future__ import annotations

from pyrula_runtime.stores.valkey.address import Address
from pyrula_runtime.stores.valkey.places import tag_of
from pyrula_runtime.stores.valkey.route import Route, slot_of


def test_what_many_calls_hear_of_one_slot_is_noted_once() -> None:
    route = Route(Address(host="first"), 1, in_cluster=True)
    tag = tag_of("n", 3)
    for port in (*[7001] * 500, 7002):
        route.moved(f"MOVED {slot_of(tag)} other:{port}")
    assert route.node_of(tag) == ("other", 7002)
    assert len(route._owners) == 2
