"""A store on a file and one on a server, with a clock that tests move, for all duties."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import Store
from tests.store.sites import SITES, Site


@pytest.fixture(params=["sqlite", "valkey"])
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    """A fresh store, audited at the end of every test."""
    site = SITES[request.param](tmp_path)
    yield site
    await site.close()
    assert site.audit() == []


@pytest.fixture
def clock(site: Site) -> ManualClock:
    return site.clock


@pytest.fixture
async def store(site: Site) -> Store:
    return await site.open()
