"""Rounds of background work: outages are told and survived, bugs end the worker."""

from __future__ import annotations

import asyncio

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.engine.health import Health
from pyrula_runtime.engine.rounds import Round, Rounds


async def test_an_unavailable_store_is_told_to_health_and_the_round_goes_on() -> None:
    health = Health(started=True)
    rounds = Rounds(health, lambda: 0.5, lambda: None)
    calls: list[str] = []
    twice = asyncio.Event()

    async def act() -> None:
        calls.append(health.status)
        if len(calls) == 1:
            raise StoreUnavailable("the disk is full")
        health.store_answered()
        twice.set()

    rounds.start(Round(name="test", act=act, period_s=0.01))
    await asyncio.wait_for(twice.wait(), 10)
    await rounds.stop(10)
    assert calls[:2] == ["ok", "store_unavailable"]
    assert health.status == "ok"


async def test_a_bug_in_a_round_is_a_failed_loop() -> None:
    health = Health(started=True)
    failed = asyncio.Event()
    rounds = Rounds(health, lambda: 0.5, failed.set)

    async def act() -> None:
        raise ZeroDivisionError

    rounds.start(Round(name="renewal", act=act, period_s=60))
    await asyncio.wait_for(failed.wait(), 10)
    await rounds.stop(10)
    assert health.failed_loop == "renewal"
    assert not health.is_live
    assert health.status == "loop_failed"


async def test_a_nudge_ends_the_rest() -> None:
    rounds = Rounds(Health(), lambda: 0.5, lambda: None)
    calls: asyncio.Queue[None] = asyncio.Queue()

    async def act() -> None:
        calls.put_nowait(None)

    work = Round(name="test", act=act, period_s=3600)
    rounds.start(work)
    await asyncio.wait_for(calls.get(), 10)
    work.nudge.set()
    await asyncio.wait_for(calls.get(), 10)
    await rounds.stop(10)


async def test_stopping_lets_a_round_finish_but_not_for_ever() -> None:
    rounds = Rounds(Health(), lambda: 0.5, lambda: None)
    begun, ended = asyncio.Event(), asyncio.Event()

    async def act() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    rounds.start(Round(name="hung", act=act, period_s=1))
    await begun.wait()
    await rounds.stop(0.01)
    await asyncio.wait_for(ended.wait(), 10)
