"""A worker buries its host's dead whatever the wall clock does meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pyrula.workflows import WorkflowContext, open_store, workflow
from pyrula_runtime.blackbox import BoxView, remove
from pyrula_runtime.duties import burial
from pyrula_runtime.options import WorkerOptions
from pyrula_runtime.stores.clock import SystemClock
from pyrula_runtime.worker import Worker, WorkerSetup
from pyrula_runtime.workflows.programs import program_of
from tests.blackbox.holder import Holder
from tests.workflows.serving import LIMIT_S, url_in


@workflow
async def idle(ctx: WorkflowContext) -> None: ...


class SetBack(SystemClock):
    """A clock that is set back an hour each time somebody looks at it."""

    def __init__(self) -> None:
        self._set_back_ms = 0

    def wall_ms(self) -> int:
        self._set_back_ms += 3_600_000
        return super().wall_ms() - self._set_back_ms


async def test_a_box_goes_although_the_wall_clock_is_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(url_in(tmp_path))
    dead = Holder(tmp_path / "run")
    path = dead.create("dead", store.identity)
    dead.end()
    gone = asyncio.Event()

    def removed(view: BoxView) -> None:
        remove(view)
        gone.set()

    monkeypatch.setattr(burial, "remove", removed)
    options = WorkerOptions(shutdown_grace=0, cancel_timeout=2)
    worker = Worker(
        WorkerSetup(
            programs=[program_of(idle)], store=store, options=options, runtime_dir=tmp_path / "run", clock=SetBack()
        )
    )
    working = asyncio.create_task(worker.run())
    await asyncio.wait_for(gone.wait(), LIMIT_S)
    assert not path.exists()
    worker.request_stop()
    assert await asyncio.wait_for(working, LIMIT_S) == 0
