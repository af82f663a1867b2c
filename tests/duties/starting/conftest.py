"""Every kind of store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import Store
from tests.store.sites import SITES, Site

# a cluster is six processes: one for the whole suite is enough
KINDS = [pytest.param(kind, marks=[pytest.mark.xdist_group("cluster")] if "cluster" in kind else []) for kind in SITES]


@pytest.fixture(params=KINDS)
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    """A fresh store of each kind, audited at the end of every test."""
    site = SITES[request.param](tmp_path)
    yield site
    await site.close()
    assert site.audit() == []


@pytest.fixture
async def store(site: Site) -> Store:
    return await site.open()


@pytest.fixture
def clock(site: Site) -> ManualClock:
    return site.clock
