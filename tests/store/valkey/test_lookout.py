"""Where a claim looks, and when a shard counts as empty: never while a ring may have gone unheard."""

from __future__ import annotations

from pyrula_runtime.stores.valkey.lookout import Lookout

LINES = frozenset({"q:order", "q:order|1"})


def short(lookout: Lookout, shard: int) -> None:
    """A claim that brought less than it asked for."""
    lookout.took(shard, LINES, lookout.begin(shard), all_asked=False)


def test_without_leases_all_shards_are_looked_at_each_time_from_another_one_on() -> None:
    lookout = Lookout()
    looks = [lookout.candidates(LINES, 4) for _ in range(4)]
    assert [sorted(look) for look in looks] == [[0, 1, 2, 3]] * 4
    assert sorted(look[0] for look in looks) == [0, 1, 2, 3]


def test_an_empty_shard_is_left_out_only_while_its_channel_is_heard() -> None:
    lookout = Lookout()
    short(lookout, 1)
    assert 1 in lookout.candidates(LINES, 2)
    lookout.hears(1)
    short(lookout, 1)
    assert lookout.candidates(LINES, 2) == [0]
    lookout.is_deaf([1])
    assert 1 in lookout.candidates(LINES, 2)


def test_a_ring_has_a_shard_looked_at_again_also_between_a_claim_and_its_answer() -> None:
    lookout = Lookout()
    lookout.hears(0)
    short(lookout, 0)
    assert lookout.candidates(LINES, 1) == []
    lookout.rang(0, "q:order")
    assert lookout.candidates(LINES, 1) == [0]
    begun = lookout.begin(0)
    lookout.rang(0, "q:order|1")
    lookout.took(0, LINES, begun, all_asked=False)
    assert lookout.candidates(LINES, 1) == [0]


def test_who_asks_for_other_lines_looks_for_himself() -> None:
    lookout = Lookout()
    lookout.hears(0)
    short(lookout, 0)
    assert lookout.candidates(LINES | {"q:other"}, 1) == [0]


def test_leased_shards_come_alone_and_those_where_work_was_found_until_they_are_empty() -> None:
    lookout = Lookout()
    assert lookout.lease([1, 2])
    assert not lookout.lease([2, 1])
    assert sorted(lookout.candidates(LINES, 8)) == [1, 2]
    assert sorted(lookout.candidates(LINES, 8, everywhere=True)) == list(range(8))
    lookout.find([5])
    assert sorted(lookout.candidates(LINES, 8)) == [1, 2, 5]
    lookout.took(5, LINES, lookout.begin(5), all_asked=True)
    assert 5 in lookout.candidates(LINES, 8)
    short(lookout, 5)
    assert sorted(lookout.candidates(LINES, 8)) == [1, 2]


def test_a_turn_is_followed_from_its_own_shard_but_not_for_ever_while_others_wait() -> None:
    lookout = Lookout()
    followed = [lookout.may_follow(0, LINES, 2) for _ in range(16)]
    assert followed == [*[True] * 7, False] * 2
    lookout.lease([0])
    assert all(lookout.may_follow(0, LINES, 2) for _ in range(16))
    lookout.lease([1])
    lookout.hears(1)
    short(lookout, 1)
    assert not lookout.may_follow(0, LINES, 2)
