"""Listing runs: filters, pages, and what a page may be."""

from __future__ import annotations

from typing import Any

import pytest

from pyrula.workflows import RunStatus, UsageError, WorkflowClient, WorkflowContext, workflow


@workflow
async def listed(ctx: WorkflowContext) -> None: ...


async def test_listing(client: WorkflowClient) -> None:
    runs = [(await client.submit(name, number)).run_id for number, name in enumerate(("listed", "mended", "listed"))]
    await client.cancel(runs[0])

    async def ids(**query: Any) -> list[str]:
        return [run.run_id for run in await client.list(**query)]

    newest = sorted(runs, reverse=True)
    assert await ids() == newest
    assert await ids(limit=2) == newest[:2]
    assert await ids(before=newest[0]) == newest[1:]
    assert set(await ids(workflow=listed)) == {runs[0], runs[2]}
    assert await ids(workflow="mended") == [runs[1]]
    assert await ids(status="cancelled") == [runs[0]]
    assert await ids(status=RunStatus.cancelled, workflow="mended") == []
    assert await ids(status=["cancelled", RunStatus.queued]) == newest
    (summary,) = await client.list(status="cancelled")
    assert (summary.workflow, summary.status, summary.started_ms) == ("listed", RunStatus.cancelled, None)
    assert summary.finished_ms is not None
    with pytest.raises(UsageError, match="'lost' is not a valid RunStatus; a status is one of queued, running"):
        await client.list(status="lost")
    wrong: Any
    for wrong, shown in (
        (0, "0"),
        (10_001, "10001"),
        (True, "True"),
        (1.5, "1.5"),
        ("3", "'3'"),
        (10**30, "of many digits"),
    ):
        with pytest.raises(UsageError, match=f"limit is {shown}, but must be a whole number from 1 to 10,000"):
            await client.list(limit=wrong)


@pytest.mark.parametrize(
    ("limit", "shown"),
    [(0, "0"), (10_001, "10001"), (True, "True"), (1.5, "1.5"), ("3", "'3'"), (10**30, "of many digits")],
)
async def test_a_page_has_a_length(client: WorkflowClient, limit: Any, shown: str) -> None:
    with pytest.raises(UsageError, match=f"limit is {shown}, but must be a whole number from 1 to 10,000"):
        await client.list(limit=limit)
