"""The shards of one handle: how many there are, the verbs at each, and which of them share a server.

How many is written in the first shard, and may be changed by whoever opens the store with another number. A handle
hears of it when a shard refuses what it placed by the former one, or with its worker's beat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from pyrula_runtime.stores.valkey import answers, server
from pyrula_runtime.stores.valkey.layout import Layout
from pyrula_runtime.stores.valkey.places import FIRST, Places, shard_of_run
from pyrula_runtime.stores.valkey.route import Node, Route
from pyrula_runtime.stores.valkey.settings import Settings
from pyrula_runtime.stores.valkey.shard import Runner, Shard


class Shards:
    """What is known of them is `layout`; `changed` is called when there are more or fewer to be heard."""

    def __init__(
        self, route: Route, settings: Settings, run: Runner, count: int | None, changed: Callable[[], None]
    ) -> None:
        self._route, self._settings, self._run, self._changed = route, settings, run, changed
        self._places = Places(route.address.namespace)
        self._made: dict[int, Shard] = {}
        self.layout = Layout(count=count or 1, most=count or 1)

    @property
    def most(self) -> int:
        """How many there are to be looked at."""
        return self.layout.most

    @property
    def patience_s(self) -> float:
        """How long a shard is waited for, once others have answered (seconds)."""
        return self._settings.part_s

    @property
    def first(self) -> Shard:
        """The one that keeps what there is once in a namespace."""
        return self.shard(FIRST)

    def shard(self, number: int) -> Shard:
        """The shard of this number."""
        made = self._made.get(number)
        if made is None:
            made = self._made[number] = Shard(number, self._places, self._run)
        return made

    def of(self, run_id: str) -> Shard:
        """The shard in which this run lives."""
        return self.shard(shard_of_run(run_id))

    def all(self) -> list[Shard]:
        """Each that there ever was, in order."""
        return [self.shard(number) for number in range(self.most)]

    def tag(self, number: int) -> str:
        """What the keys and channels of a shard begin with."""
        return self._places.tag(number)

    def by_server(self) -> list[list[int]]:
        """The shards of each server, in their order; silence is measured in the first of each."""
        servers: dict[Node | None, list[int]] = {}
        for number in range(self.most):
            servers.setdefault(self._route.node_of(self.tag(number)), []).append(number)
        return list(servers.values())

    async def learn(self, wanted: int | None = None) -> None:
        """Hear how many shards there are, or say how many there are to be."""
        before, layout = self.layout, await self._begin(wanted)
        if layout.most < before.most:
            # its server has lost what it was told, by a failover: the shards that it does not know have runs
            for count in (before.most, before.count):
                layout = await self._begin(count)
        self.layout = layout
        if before.most != layout.most:
            self._changed()

    async def place_keys(self, layout: Layout) -> None:
        """Whoever still keeps keys where they were hears that there is another place now."""
        await asyncio.gather(*[self.shard(number).place(layout.count) for number in range(layout.most)])

    async def _begin(self, wanted: int | None) -> Layout:
        usual = self._settings.cluster_shards if self._route.in_cluster else 1
        begin = (server.SCHEMA, "" if wanted is None else wanted, usual)
        layout: Layout = await self.first.ask("begin", *begin, "", told=self._told_layout)
        if not layout.is_told:
            await self.place_keys(layout)
            layout = await self.first.ask("begin", *begin, layout.count, told=self._told_layout)
        return layout

    def _told_layout(self, reply: list[Any]) -> Layout:
        schema, *layout = reply
        server.check_schema(self._route.address)(schema)
        return answers.layout(layout)
