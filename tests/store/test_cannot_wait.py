"""A store that cannot wait yet says so; one that can must not stand on the list of those that cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.core.status import DUE
from tests.store.sites import CANNOT_WAIT, SITES

# a cluster is six processes: one for the whole suite is enough
KINDS = [
    pytest.param(kind, marks=[pytest.mark.xdist_group(kind)] if kind == "cluster" else [])
    for kind in sorted(CANNOT_WAIT)
]


@pytest.mark.parametrize("kind", KINDS)
async def test_it_refuses_in_a_sentence(kind: str, tmp_path: Path) -> None:
    site = SITES[kind](tmp_path)
    store = await site.open()
    with pytest.raises(UsageError, match="cannot wake runs at a time yet"):
        await store.wake_due(DUE, 1)
    await site.close()
