"""Four workers on one store in a storm of kills, stops, lost and repeated calls: the history is clean, all runs end.

A storm that finds something tells its seed; PYRULA_STORM_SEED raises the same one again.
"""

from __future__ import annotations

import os
import secrets

import pytest

from tests.faults.keeping import kinds
from tests.faults.storm import Storm
from tests.faults.world import World


async def raised(world: World, seed: int, length_s: float) -> None:
    """Let a storm blow and look at what it left."""
    print(f"PYRULA_STORM_SEED={seed}")
    storm = Storm(world, seed, length_s)
    wrong = await storm.rage()
    print(storm.tally.told())
    assert not wrong, "\n".join([f"storm {seed}:", *wrong[:50]])
    assert storm.tally.kills > length_s / 4
    assert len(storm.tally.runs) > length_s


SEED = int(os.environ.get("PYRULA_STORM_SEED", "1"))


async def test_a_short_storm(world: World) -> None:
    await raised(world, SEED, 12)


@pytest.mark.parametrize("keeping", kinds("valkey", "cluster"), indirect=True)
async def test_a_short_storm_on_servers(world: World) -> None:
    await raised(world, SEED, 6)


@pytest.mark.nightly
@pytest.mark.parametrize("keeping", kinds("sqlite", "valkey", "cluster"), indirect=True)
async def test_a_long_storm(world: World) -> None:
    await raised(world, int(os.environ.get("PYRULA_STORM_SEED") or secrets.randbelow(2**32)), 60)
