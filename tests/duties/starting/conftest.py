"""The stores that the duties which begin runs are tried on: every kind, the most different ones by day."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import Store
from tests.store.sites import SITES, Site

# what the others differ in is for the store's contract to show
BY_DAY = {"model", "sqlite", "shards"}


def marks_of(kind: str) -> list[pytest.MarkDecorator]:
    # a cluster is six processes: one for the whole suite is enough
    alone = [pytest.mark.xdist_group("cluster")] if "cluster" in kind else []
    return alone if kind in BY_DAY else [*alone, pytest.mark.nightly]


@pytest.fixture(params=[pytest.param(kind, marks=marks_of(kind)) for kind in SITES])
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
