"""Real processes that stand still for real reasons, and the verdicts on them from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pyrula_runtime.core.standstill import COUNTING, UNKNOWN, Verdict
from pyrula_runtime.looking import Onlooker
from tests.engine.standing import Standing

Starting = Callable[[str], Standing]
ENOUGH = 4  # looks that must all say the same


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starting]:
    with ExitStack() as ends:

        def one(code: str) -> Standing:
            standing = Standing(tmp_path, code)
            ends.callback(standing.end)
            return standing

        yield one


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        ("on_lane(time.sleep, 3600)", Verdict.blocked),
        ("on_lane(spin)", Verdict.blocked),
        ("on_lane(regex)", Verdict.held_on_cpu),
        ("on_lane(ctypes.PyDLL(None).sleep, 3600)", Verdict.held_waiting),
    ],
)
def test_code_that_keeps_the_lane_is_named_and_its_time_adds_up(start: Starting, code: str, verdict: Verdict) -> None:
    standing = start(code)
    first = later = standing.until(verdict)
    while later.stuck.for_ms <= first.stuck.for_ms:  # on a busy host a look may find that it had no CPU at all
        later = standing.until(verdict)
    assert (first.stuck.run_id, later.stuck.run_id) == ("R", "R")
    assert later.stuck.mute == (verdict is not Verdict.blocked)


@pytest.mark.parametrize(
    "code",
    [
        "time.sleep(3600)",
        "on_thread(time.sleep, 3600)\ntime.sleep(3600)",
        "while True: on_lane(time.sleep, 0.001)",
    ],
)
def test_a_lane_that_turns_or_rests_is_well(start: Starting, code: str) -> None:
    standing = start(code)
    standing.until(Verdict.healthy)
    assert not {standing.look().verdict for _ in range(ENOUGH)} & COUNTING


@pytest.mark.parametrize("lane", ["time.sleep(3600)", "on_lane(time.sleep, 2)\non_lane(spin)"])
def test_a_thread_that_computes_with_the_gil_is_named_and_not_the_lane(start: Starting, lane: str) -> None:
    standing = start(f"on_thread(regex)\n{lane}")
    seen = standing.until(Verdict.held_elsewhere)
    while seen.stuck.run_id != "T":
        seen = standing.until(Verdict.held_elsewhere)
    assert seen.holder is not None
    assert seen.stuck.mute


def test_a_thread_that_waits_with_the_gil_accuses_nobody(start: Starting) -> None:
    standing = start("on_thread(ctypes.PyDLL(None).sleep, 3600)\ntime.sleep(3600)")
    seen = standing.until(Verdict.held_elsewhere)
    assert (seen.stuck.run_id, seen.holder) == ("", None)


@pytest.mark.parametrize("code", ["on_lane(time.sleep, 3600)", "on_lane(regex)", "time.sleep(3600)"])
def test_a_stopped_process_is_left_alone_for_as_long_as_it_is(start: Starting, code: str) -> None:
    standing = start(code)
    os.kill(standing.pid, signal.SIGSTOP)
    os.waitpid(standing.pid, os.WUNTRACED)
    before = standing.until(Verdict.stopped)
    for _ in range(ENOUGH):
        assert standing.look().verdict is Verdict.stopped
    os.kill(standing.pid, signal.SIGCONT)
    after = standing.until(Verdict.stopped)
    assert after.stuck.for_ms == before.stuck.for_ms


def test_garbage_collection_is_nobodys_fault(start: Starting) -> None:
    standing = start(
        """
        gc.disable()
        heap = [[number] for number in range(1_500_000)]
        def collects():
            while True:
                gc.collect()
        on_lane(collects)
        """
    )
    before = standing.until(Verdict.collecting)
    seen = [standing.look() for _ in range(ENOUGH)]
    assert {each.verdict for each in seen} <= {Verdict.collecting, Verdict.starved}
    assert seen[-1].stuck.for_ms == before.stuck.for_ms


@pytest.fixture
def hogs() -> Iterator[int]:
    """A CPU that others want more than whoever is idle by policy, however nice they are; its number."""
    cpu = min(os.sched_getaffinity(0))
    text = f"import os; os.sched_setaffinity(0, [{cpu}])\nwhile True: pass"
    started = [subprocess.Popen([sys.executable, "-c", text]) for _ in range(2)]
    yield cpu
    for each in started:
        each.kill()
        each.wait()


def test_a_process_that_gets_no_cpu_is_starved(start: Starting, hogs: int) -> None:
    standing = start(
        f"""
        def computes():
            os.sched_setaffinity(threading.get_native_id(), [{hogs}])
            os.sched_setscheduler(threading.get_native_id(), os.SCHED_IDLE, os.sched_param(0))
            while True:
                sum(range(100))
        on_lane(computes)
        """
    )
    standing.until(Verdict.starved)
    seen = [standing.look() for _ in range(ENOUGH)]
    assert [each.verdict for each in seen].count(Verdict.starved) >= ENOUGH - 1
    assert seen[-1].stuck.for_ms - seen[0].stuck.for_ms < 300


def test_threads_are_seen_one_by_one_and_all_together() -> None:
    onlooker = Onlooker(os.getpid())
    one = onlooker.thread(os.getpid())
    assert one.state == "R"
    assert one.cpu_ms > 0
    assert onlooker.threads()[os.getpid()].slices >= one.slices
    assert not onlooker.is_frozen(os.getpid())


def test_who_is_gone_is_unknown() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    onlooker = Onlooker(process.pid)
    process.wait()
    assert onlooker.thread(process.pid) == UNKNOWN
    assert onlooker.threads() == {}
    assert not onlooker.is_frozen(process.pid)
