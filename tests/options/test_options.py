"""Options: one definition, every way in, and all faults told together."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrula_runtime.core.errors import ConfigurationError
from pyrula_runtime.options import OPTIONS, Option, PoisonOptions, WorkerOptions

BY_KEY = {each.key: each for each in OPTIONS}


def faults_of(environ: dict[str, str], **overrides: Any) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as caught:
        WorkerOptions.from_env(environ, **overrides)
    return caught.value.faults


def test_defaults_are_the_published_ones() -> None:
    assert {each.name: each.default for each in OPTIONS} == {
        "max_concurrent_turns": 50,
        "isolation": "lane",
        "codec": None,
        "replay": "when-resumed",
        "lock_ttl": 30.0,
        "orphan_scan_interval": 60.0,
        "timer_poll_interval_s": 5.0,
        "schedule_poll_interval_s": 30.0,
        "block_warn": 2.0,
        "replace_after": 5.0,
        "evacuate_after": None,
        "shutdown_grace": 30.0,
        "cancel_timeout": 5.0,
        "shard_count": None,
        "shard_lease_ttl": 30.0,
        "shard_lease_interval": 10.0,
        "idempotency_ttl": 86_400.0,
        "retention": 0.0,
        "retention_quarantined": 0.0,
        "live_ttl_after_archive": 300.0,
        "poison.max_retries": 3,
        "poison.retry_ttl_s": 3600.0,
    }
    assert WorkerOptions.from_env({}) == WorkerOptions() == WorkerOptions(poison=PoisonOptions())


def test_every_field_is_in_the_table_and_says_everything_about_itself() -> None:
    assert {each.name for each in fields(WorkerOptions)} == {each.name.split(".")[0] for each in OPTIONS}
    for each in OPTIONS:
        assert re.fullmatch(r"--[a-z]+(-[a-z]+)*", each.flag), each
        assert each.env == "PYRULA_" + each.key.upper()
        assert re.fullmatch(r"[A-Z].*\.|[A-Z].*; unset, .*\.", each.help), each
        assert each.kind is str or each.unit, each
        assert each.kind is str or each.low < each.high < float("inf"), each
    for spelling in ("name", "key", "flag", "env", "help"):
        assert len({getattr(each, spelling) for each in OPTIONS}) == len(OPTIONS), spelling


def test_flags_have_their_published_names() -> None:
    published = "max-concurrent-runs orphan-scan-interval shutdown-grace cancel-timeout shard-count shard-lease-ttl"
    assert {f"--{name}" for name in published.split()} <= {each.flag for each in OPTIONS}


def test_the_caller_wins_over_the_environment_which_wins_over_the_default() -> None:
    environ = {"PYRULA_LOCK_TTL": "40", "PYRULA_POISON_MAX_RETRIES": "7", "PYRULA_ISOLATION": "turn", "OTHER": "x"}
    options = WorkerOptions.from_env(environ, lock_ttl=50, poison_retry_ttl_s="60", shard_count=None)
    assert options == WorkerOptions(
        lock_ttl=50, isolation="turn", poison=PoisonOptions(max_retries=7, retry_ttl_s=60.0)
    )


def test_an_empty_variable_is_unset_but_an_empty_flag_is_a_fault() -> None:
    assert WorkerOptions.from_env({"PYRULA_LOCK_TTL": ""}) == WorkerOptions()
    assert "''" in faults_of({}, lock_ttl="")[0]


def test_evacuation_comes_with_the_end_of_the_lock_unless_told() -> None:
    assert WorkerOptions(lock_ttl=20).evacuate_after_s == 20
    assert WorkerOptions(lock_ttl=20, evacuate_after=8).evacuate_after_s == 8


def test_all_faults_are_told_together_and_each_says_what_would_do() -> None:
    assert faults_of(
        {"PYRULA_LOCK_TTL": "soon", "PYRULA_BLOCK_WARN": "6"}, isolation="process", poison_max_retries=-1
    ) == (
        "isolation (--isolation, PYRULA_ISOLATION) is 'process', but must be one of lane, turn",
        "lock_ttl (--lock-ttl, PYRULA_LOCK_TTL) is 'soon', but must be a number from 1 to 86400 s",
        "poison.max_retries (--poison-max-retries, PYRULA_POISON_MAX_RETRIES) is -1, but must be a whole number from 0 "
        "to 1000 charges",
        "block_warn (--block-warn, PYRULA_BLOCK_WARN) is 6 s, but must be less than replace_after (--replace-after, "
        "PYRULA_REPLACE_AFTER), which is 5 s",
    )


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"block_warn": 5.0}, "block_warn .* is 5 s, but must be less than replace_after .* is 5 s"),
        ({"evacuate_after": 4.0}, "replace_after .* less than evacuate_after .* is 4 s"),
        ({"lock_ttl": 4.0}, "replace_after .* less than lock_ttl .* is 4 s"),
        ({"evacuate_after": 90.0}, "evacuate_after .* is 90 s, but must be less than 3 times lock_ttl .* is 30 s"),
        ({"shard_lease_interval": 30.0}, "shard_lease_interval .* less than shard_lease_ttl .* is 30 s"),
    ],
)
def test_durations_that_belong_together_are_in_order(overrides: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as caught:
        WorkerOptions(**overrides)
    assert len(caught.value.faults) == 1


ABSURD: list[Any] = [-1, float("nan"), float("inf"), float("-inf"), True, "5", [], b"5", 10**400]


@pytest.mark.parametrize("value", ABSURD, ids=lambda value: repr(value)[:9])
@pytest.mark.parametrize("each", OPTIONS, ids=lambda each: each.name)
def test_absurd_values_and_wrong_types_are_refused(each: Option, value: Any) -> None:
    build = PoisonOptions if each.name.startswith("poison.") else WorkerOptions
    with pytest.raises(ConfigurationError) as caught:
        build(**{each.field: value})
    assert any(fault.startswith(each.title) for fault in caught.value.faults)


@pytest.mark.parametrize("name", ["max_concurrent_turns", "lock_ttl", "cancel_timeout", "shard_count", "block_warn"])
def test_zero_is_refused_where_it_makes_no_sense(name: str) -> None:
    assert BY_KEY[name].fault(0) is not None


@pytest.mark.parametrize("name", ["shutdown_grace", "poison_max_retries", "live_ttl_after_archive"])
def test_zero_is_taken_where_it_means_something(name: str) -> None:
    assert BY_KEY[name].fault(0) is None


def test_a_whole_number_may_stand_for_a_duration_but_not_the_reverse() -> None:
    assert WorkerOptions(shutdown_grace=3).shutdown_grace == 3
    assert BY_KEY["shard_count"].fault(8.0) is not None
    assert "'8.5'" in faults_of({"PYRULA_SHARD_COUNT": "8.5"})[0]


def test_poison_must_be_poison_options() -> None:
    wrong: Any = {"max_retries": 1}
    with pytest.raises(ConfigurationError, match=r"poison\.max_retries"):
        WorkerOptions(poison=wrong)


def test_an_unknown_option_is_the_programmers_mistake() -> None:
    with pytest.raises(TypeError, match="lock_tll"):
        WorkerOptions.from_env({}, lock_tll=3)


@given(text=st.text(), key=st.sampled_from(sorted(BY_KEY)))
def test_any_text_is_a_value_or_a_sentence(text: str, key: str) -> None:
    option = BY_KEY[key]
    value = option.parse(text)
    fault = option.fault(value)
    assert fault is None or option.flag in fault
