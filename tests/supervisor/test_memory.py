"""The kernel's counter of processes that it has killed for want of memory, of either version of cgroups."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyrula_supervisor.memory import KernelKills

V1 = "9:cpu:/\n4:memory:/service/one\n0::/\n"
V2 = "0::/service/one\n"


@pytest.mark.parametrize(
    ("own", "counter"),
    [
        (V1, "memory/service/one/memory.oom_control"),
        (V1, "memory/memory.oom_control"),
        (V2, "service/one/memory.events"),
        (V2, "memory.events"),
    ],
)
def test_a_rise_counts_for_some_seconds(tmp_path: Path, own: str, counter: str) -> None:
    kills = made(tmp_path, own, counter)
    assert not kills.rose(1_000)
    say(tmp_path / counter, 1)
    assert kills.rose(2_000)
    assert kills.rose(6_000)
    kills.look(8_000)
    assert not kills.rose(12_000), "that was another's death"
    say(tmp_path / counter, 2)
    assert kills.rose(12_500)


def test_without_a_counter_nobody_was_killed_by_the_kernel(tmp_path: Path) -> None:
    kills = KernelKills(tmp_path, tmp_path / "own")
    assert not kills.rose(1_000)


def test_a_counter_that_goes_away_says_nothing(tmp_path: Path) -> None:
    kills = made(tmp_path, V2, "memory.events")
    (tmp_path / "memory.events").unlink()
    assert not kills.rose(1_000)


def made(folder: Path, own: str, counter: str) -> KernelKills:
    (folder / "own").write_text(own)
    (folder / counter).parent.mkdir(parents=True, exist_ok=True)
    say(folder / counter, 0)
    return KernelKills(folder, folder / "own")


def say(path: Path, count: int) -> None:
    path.write_text(f"low 0\nunder_oom 0\noom 3\noom_kill {count}\n")
