"""The stores that can wait; which cannot yet is said in `tests.store.sites.CANNOT_WAIT`, and only there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.store.sites import SITES, WAITING, Site

# a cluster is six processes: one for the whole suite is enough
KINDS = [pytest.param(kind, marks=[pytest.mark.xdist_group(kind)] if kind == "cluster" else []) for kind in WAITING]


@pytest.fixture(params=KINDS)
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    """A fresh store of each kind, audited at the end of every test."""
    site = SITES[request.param](tmp_path)
    await site.open()
    yield site
    await site.close()
    assert site.audit() == []
