"""A journal that grows: people are warned in time, by log and by event, and beyond the limit it is refused readably."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyrula_runtime.core.limits import MAX_JOURNAL_BYTES, MAX_JOURNAL_ENTRIES
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.turn import Turn
from tests.engine.fake_host import FakeHost, Ops, claim_of, program


async def two_steps(ctx: Ops) -> None:
    await ctx.step()
    await ctx.step()


def turn_at(host: FakeHost, entries: int, size: int) -> Turn:
    """A turn whose journal has so many entries already, though none is to be replayed."""
    turn = Turn(claim_of(journal_len=entries, journal_bytes=size), program(two_steps), (), host)
    turn.begin()
    return turn


@pytest.mark.parametrize(
    ("entries", "size"), [(MAX_JOURNAL_ENTRIES // 5 - 1, 0), (10, MAX_JOURNAL_BYTES // 5 - 1)], ids=["entries", "bytes"]
)
async def test_a_fifth_of_a_limit_is_told_once_by_log_and_event(entries: int, size: int) -> None:
    host = FakeHost()
    turn_at(host, entries, size)
    host.complete("work#1")
    (fact,) = (await host.answer()).facts
    told: dict[str, Any] = json.loads(fact)
    assert told["type"] == "journal_warning"
    assert (told["data"]["entries"], told["data"]["share"]) == (entries + 1, 0.2)
    assert told["data"]["bytes"] > size
    assert [line for line in host.log if "past a fifth" in line] == [
        f"journal past a fifth of its limit: {entries + 1} entries, {told['data']['bytes']} bytes"
    ]
    host.complete("work#2")
    assert (await host.answer()).facts == ()


@pytest.mark.parametrize(
    ("entries", "size"), [(MAX_JOURNAL_ENTRIES, 0), (10, MAX_JOURNAL_BYTES - 10)], ids=["entries", "bytes"]
)
async def test_beyond_the_limit_the_run_fails_with_a_sentence(entries: int, size: int) -> None:
    host = FakeHost()
    turn_at(host, entries, size)
    host.complete("work#1")
    commit = await host.answer()
    assert commit.entries == ()
    assert commit.ending is not None
    assert commit.ending.status is RunStatus.failed
    error = json.loads(commit.ending.error or b"{}")
    assert error["type"] == "LimitExceeded"
    assert error["message"].endswith(
        "its limits are 51,200 and 50,000,000: split the work into several runs, or go on as new"
    )
