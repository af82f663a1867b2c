"""Some runs block or kill their worker each time, in a storm of kills, pauses and reloads: they are out, nobody else.

A storm that finds something tells its seed; PYRULA_STORM_SEED raises the same one again.
"""

from __future__ import annotations

import os
import secrets

import pytest

from tests.faults.blame_storm import BlameStorm, Load, logs_of
from tests.faults.keeping import kinds
from tests.faults.world import World


async def raised(world: World, seed: int, load: Load) -> None:
    """Let a storm blow and look at what it left."""
    print(f"PYRULA_STORM_SEED={seed}")
    storm = BlameStorm(world, seed, load)
    try:
        wrong = await storm.rage()
    finally:
        await storm.supervised.kill()
    print(storm.tally.told())
    assert not wrong, "\n".join([f"storm {seed}:", *wrong[:50], logs_of(world.directory)])
    assert storm.tally.blows.total() > load.length_s / 4


@pytest.mark.parametrize("seed", [int(os.environ.get("PYRULA_STORM_SEED", "1"))])
async def test_a_short_storm(world: World, seed: int) -> None:
    await raised(world, seed, Load(innocent=100, guilty_of_each=1, length_s=60))


@pytest.mark.nightly
@pytest.mark.parametrize("keeping", kinds("valkey"), indirect=True)
async def test_a_storm_on_a_server(world: World) -> None:
    seed = int(os.environ.get("PYRULA_STORM_SEED") or secrets.randbelow(2**32))
    await raised(world, seed, Load(innocent=200, guilty_of_each=2, length_s=60))


@pytest.mark.nightly
async def test_a_long_storm(world: World) -> None:
    seed = int(os.environ.get("PYRULA_STORM_SEED") or secrets.randbelow(2**32))
    await raised(world, seed, Load(innocent=500, guilty_of_each=10, length_s=600))
