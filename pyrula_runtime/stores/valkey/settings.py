"""The store's own measures, in one place; tests make them small, users never see them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Times in seconds."""

    connect_s: float = 3.0  # for each step of connecting
    answer_s: float = 10.0  # a server that owes an answer for so long is taken for gone
    confirm_ms: int = 2_000  # milliseconds for replicas to confirm a batch, with the strict profile
    close_s: float = 5.0  # for what is under way when the store is closed
    ping_s: float = 2.0  # without an answer, before the store counts as unavailable
    part_s: float = 5.0  # without an answer, when other shards have given theirs, before a part counts as unavailable
    knock_s: float = 20.0  # a subscription that heard nothing for so long asks whether the server is there
    again_s: float = 0.05  # pause before connecting anew, doubled with each failure
    again_most_s: float = 2.0
    rearm_s: float = 0.02  # a listener whose process does not claim after a wake waits so long before it asks for more
    gather_s: float = 1.0  # after a worker has come, before shards are handed to it: others may come with it
    carry_s: float = 1.0  # before effects that did not reach their shards are tried again
    cluster_shards: int = 64  # of a new namespace in a cluster, if nobody says how many
    guarded: bool = False  # for tests: scripts check that each key they touch carries their tag
