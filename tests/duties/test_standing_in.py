"""Standing in for a mute worker: its locks live, then all but one of its runs go back; what it does late is refused."""

from __future__ import annotations

import pytest

from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.duties.standing_in import StandingIn
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import CLEAN, Append, Store
from pyrula_runtime.wire import Stage, StandIn
from tests.store.samples import TTL_MS, appending, claimed, new_run, request

Told = list[tuple[str, tuple[str, ...]]]


@pytest.fixture
def told() -> Told:
    return []


@pytest.fixture
def standing(store: Store, clock: ManualClock, told: Told) -> StandingIn:
    return StandingIn(store, TTL_MS, clock.mono_ms, lambda who, run_ids: told.append((who, run_ids)))


async def held_by_mute(store: Store, count: int) -> list[Token]:
    for _ in range(count):
        await store.submit(new_run())
    return [claim.token for claim in await store.claim(request(limit=count, incarnation="mute"))]


async def lock_left(store: Store, token: Token) -> int | None:
    record = await store.read(token.run_id)
    assert record is not None
    return record.lock_left_ms


async def test_it_renews_what_the_mute_hold_and_nobody_elses(
    store: Store, standing: StandingIn, clock: ManualClock, told: Told
) -> None:
    tokens, others = await held_by_mute(store, 3), await claimed(store, "speaks")
    clock.move(20_000)
    assert standing.hear(StandIn(incarnation="mute", stage=Stage.renew))
    await standing.act()
    assert {await lock_left(store, token) for token in tokens} == {TTL_MS}
    assert await lock_left(store, others.token) == TTL_MS - 20_000
    assert told == []


async def test_a_mute_worker_keeps_its_locks_for_as_long_as_it_is_told(
    store: Store, standing: StandingIn, clock: ManualClock
) -> None:
    (token,) = await held_by_mute(store, 1)
    for _ in range(20):
        standing.hear(StandIn(incarnation="mute", stage=Stage.renew))
        await standing.act()
        clock.move(TTL_MS // 3)
        assert (await store.reclaim_lapsed(RunStatus.queued, TTL_MS, 10)).run_ids == ()
    assert (await store.commit(appending(token, 0, b"late"))).append is Append.done


async def test_a_lock_that_has_lapsed_is_no_orphans_if_it_is_renewed_before_the_scan(
    store: Store, standing: StandingIn, clock: ManualClock
) -> None:
    (token,) = await held_by_mute(store, 1)
    clock.move(TTL_MS - 1)
    await store.ping()  # somebody reaches the store: nothing is forgiven as an outage
    clock.move(2)
    standing.hear(StandIn(incarnation="mute", stage=Stage.renew))
    await standing.act()
    assert (await store.reclaim_lapsed(RunStatus.queued, TTL_MS, 10)).run_ids == ()
    assert await lock_left(store, token) == TTL_MS


async def test_evacuation_hands_back_all_but_one_uncharged(
    store: Store, standing: StandingIn, clock: ManualClock, told: Told
) -> None:
    kept, *others = await held_by_mute(store, 3)
    clock.move(20_000)
    assert standing.hear(StandIn(incarnation="mute", stage=Stage.evacuate, keep=kept.run_id))
    await standing.act()
    assert told == [("mute", tuple(each.run_id for each in others))]
    assert await lock_left(store, kept) == TTL_MS
    claims = await store.claim(request(incarnation="sibling"))
    assert [(claim.token.run_id, claim.dossier) for claim in claims] == [(each.run_id, CLEAN) for each in others]
    # it wakes up
    assert (await store.commit(appending(others[0], 0, b"late"))).append is Append.fenced
    assert (await store.commit(appending(kept, 0, b"mine"))).append is Append.done
    await standing.act()
    assert len(told) == 1


async def test_a_claim_that_reaches_the_mute_goes_back_too(store: Store, standing: StandingIn, told: Told) -> None:
    (kept,) = await held_by_mute(store, 1)
    standing.hear(StandIn(incarnation="mute", stage=Stage.evacuate, keep=kept.run_id))
    await standing.act()
    (late,) = await held_by_mute(store, 1)
    await standing.act()
    assert told == [("mute", (late.run_id,))]


async def test_code_of_no_run_keeps_nothing_back(store: Store, standing: StandingIn) -> None:
    tokens = await held_by_mute(store, 2)
    standing.hear(StandIn(incarnation="mute", stage=Stage.evacuate))
    await standing.act()
    assert len(await store.claim(request())) == len(tokens)


async def test_only_news_asks_for_something_at_once(standing: StandingIn) -> None:
    said = [
        StandIn(incarnation="mute", stage=Stage.renew),
        StandIn(incarnation="mute", stage=Stage.renew),
        StandIn(incarnation="mute", stage=Stage.evacuate, keep="one"),
        StandIn(incarnation="mute", stage=Stage.evacuate, keep="one"),
        StandIn(incarnation="mute", stage=Stage.evacuate, keep="two"),
        StandIn(incarnation="mute", stage=Stage.over),
        StandIn(incarnation="mute", stage=Stage.over),
    ]
    assert [standing.hear(each) for each in said] == [True, False, True, False, True, False, False]


async def test_it_stops_when_it_is_over(store: Store, standing: StandingIn, clock: ManualClock) -> None:
    (token,) = await held_by_mute(store, 1)
    standing.hear(StandIn(incarnation="mute", stage=Stage.renew))
    standing.hear(StandIn(incarnation="mute", stage=Stage.over))
    clock.move(1_000)
    await standing.act()
    assert await lock_left(store, token) == TTL_MS - 1_000
    assert standing.mute == frozenset()


async def test_it_stops_when_its_supervisor_falls_silent(
    store: Store, standing: StandingIn, clock: ManualClock
) -> None:
    (token,) = await held_by_mute(store, 1)
    standing.hear(StandIn(incarnation="mute", stage=Stage.renew))
    clock.move(TTL_MS)
    await standing.act()
    assert await lock_left(store, token) == TTL_MS
    clock.move(1)
    await standing.act()
    assert (standing.mute, await lock_left(store, token)) == (frozenset(), TTL_MS - 1)


async def test_the_shards_of_the_mute_go_to_their_neighbours_those_of_the_silent_do_not(
    store: Store, standing: StandingIn, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_up: list[str] = []

    async def give_up(incarnation: str) -> None:
        given_up.append(incarnation)

    monkeypatch.setattr(store, "give_up_leases", give_up)
    (token,) = await held_by_mute(store, 1)
    clock.move(20_000)
    for stage, to_give_up in ((Stage.renew, []), (Stage.hand_on, ["mute"])):
        assert standing.hear(StandIn(incarnation="mute", stage=stage))
        await standing.act()
        assert given_up == to_give_up
        assert await lock_left(store, token) == TTL_MS
        clock.move(20_000)
