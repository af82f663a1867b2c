"""Clients on stores of their own in temporary folders."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from pyrula.workflows import WorkflowClient, open_store
from pyrula.workflows.sync import WorkflowClient as SyncClient


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'runs.db'}"


@pytest.fixture
async def client(url: str) -> AsyncIterator[WorkflowClient]:
    async with WorkflowClient(open_store(url)) as opened:
        yield opened


@pytest.fixture
def sync_client(url: str) -> Iterator[SyncClient]:
    with SyncClient(open_store(url)) as opened:
        yield opened
