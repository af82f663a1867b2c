"""The supervisor's options: where they come from, what is refused and in which words, and the policy made of them."""

from __future__ import annotations

from typing import Any

import pytest

from pyrula_runtime.core.errors import ConfigurationError
from pyrula_runtime.options import PoisonOptions, WorkerOptions
from pyrula_supervisor.options import SUPERVISOR_OPTIONS, Policy, SupervisorOptions, size_of

BY_KEY = {each.key: each for each in SUPERVISOR_OPTIONS}


def faults(**values: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        SupervisorOptions(**values)
    with pytest.raises(ConfigurationError) as told:
        SupervisorOptions.from_env({}, **values)
    assert str(told.value) == str(caught.value)
    return str(caught.value)


def test_defaults() -> None:
    options = SupervisorOptions.from_env({})
    assert options == SupervisorOptions()
    assert (options.procs, options.name, options.min_ready, options.start_method) == (1, "default", 1, "auto")
    assert (options.health_port, options.health_host) == (8081, "127.0.0.1")
    assert (options.startup_timeout, options.reload_settle) == (60.0, 5.0)
    assert (options.max_turns_per_child, options.max_rss_per_child) == (0, "0")
    assert (options.warmup, options.after_fork) == (None, None)


def test_flags_win_over_the_environment() -> None:
    environ = {"PYRULA_PROCS": "3", "PYRULA_WORKER_HEALTH_PORT": "0", "PYRULA_MAX_RSS_PER_CHILD": "1.5G"}
    options = SupervisorOptions.from_env(environ, procs="4", warmup="app.warm:up")
    assert (options.procs, options.health_port, options.max_rss_per_child) == (4, 0, "1.5G")
    assert options.warmup == "app.warm:up"


@pytest.mark.parametrize("procs", [0, 500, -1, 129])
def test_absurd_numbers_of_processes_are_refused(procs: int) -> None:
    said = faults(procs=procs)
    assert f"procs (--procs, PYRULA_PROCS) is {procs}, but must be a whole number from 1 to 128 processes" in said


@pytest.mark.parametrize(
    ("key", "value", "must"),
    [
        ("name", "../other", "letters, digits, dots, dashes and underscores"),
        ("name", "-x", "a letter or digit first"),
        ("name", "n" * 65, "up to 64"),
        ("name", "", "text that is not empty"),
        ("start_method", "fork", "one of auto, spawn, template"),
        ("max_rss_per_child", "5 bananas", "a number of bytes such as 512M or 2G, or 0"),
        ("max_rss_per_child", "-1", "a number of bytes"),
        ("warmup", "app.warm", "module:function"),
        ("after_fork", "app:", "module:function"),
        ("min_ready", 0, "a whole number from 1 to 128"),
        ("startup_timeout", 0, "a number from 0.1 to 3600 s"),
        ("reload_settle", -1, "a number from 0 to 3600 s"),
        ("max_turns_per_child", -1, "a whole number from 0"),
        ("health_port", 65_536, "a whole number from 0 to 65535"),
    ],
)
def test_what_is_refused(key: str, value: Any, must: str) -> None:
    said = faults(**{key: value})
    assert f"{BY_KEY[key].title} is {value!r}, but must be" in said
    assert must in said


def test_min_ready_cannot_pass_procs() -> None:
    said = faults(procs=2, min_ready=3)
    assert "min_ready (--min-ready, PYRULA_MIN_READY) is 3, but must be at most procs" in said
    assert SupervisorOptions(procs=2, min_ready=2).min_ready == 2


def test_all_faults_are_told_together() -> None:
    said = faults(procs=0, name="a b", max_rss_per_child="much", start_method="x")
    assert all(key in said for key in ("procs", "name", "max_rss_per_child", "start_method"))


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1000", 1000),
        ("512M", 512 << 20),
        ("512m", 512 << 20),
        ("1.5G", 3 << 29),
        ("2GiB", 2 << 30),
        ("4 KB", 4096),
        ("1T", 1 << 40),
        ("", None),
        ("M", None),
        ("1X", None),
        ("nan", None),
    ],
)
def test_sizes(text: str, size: int | None) -> None:
    assert size_of(text) == size


def test_every_option_says_what_it_means() -> None:
    for each in SUPERVISOR_OPTIONS:
        assert each.help.endswith(".")
        assert each.flag == "--" + each.key.replace("_", "-")
        assert each.env.startswith("PYRULA_")


def test_the_policy() -> None:
    options = SupervisorOptions(
        procs=4,
        min_ready=2,
        start_method="spawn",
        startup_timeout=1.5,
        max_turns_per_child=7,
        max_rss_per_child="2K",
        reload_settle=0.25,
    )
    worker = WorkerOptions(shutdown_grace=10, cancel_timeout=2, poison=PoisonOptions())
    assert Policy.of(options, worker, no_template="not Linux") == Policy(
        procs=4,
        min_ready=2,
        start_method="spawn",
        no_template="not Linux",
        startup_timeout_ms=1_500,
        drain_ms=16_000,
        max_turns=7,
        max_rss_bytes=2_048,
        reload_settle_ms=250,
    )
    assert Policy.of(SupervisorOptions(), WorkerOptions()) == Policy()
