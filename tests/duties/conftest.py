"""A store with a clock that tests move, for all duties."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import Store
from pyrula_runtime.stores.sqlite.store import SqliteStore
from tests.store.sites import SMALL


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Store]:
    opened = SqliteStore(tmp_path / "s.db", clock, SMALL)
    await opened.open()
    yield opened
    await opened.close()
