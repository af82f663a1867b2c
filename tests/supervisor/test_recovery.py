"""Runs outlive whoever executes them: a worker's death, the clerk's, the supervisor's; each goes on elsewhere at once.

At once means: by burial, long before a lock lapses (30 s) or a scan comes round (60 s). No time is tested here.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.supervisor.household import Household, household, stat_of

HANGS = "Path(f'{os.getpid()}.begun').touch(); time.sleep(0 if Path('free').exists() else 100)"


@pytest.fixture(params=["spawn", "template"])
def house(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Household]:
    """A supervisor of two workers, of either start method."""
    with household(tmp_path, start_method=request.param) as made:
        yield made


def executing(house: Household, among: set[int]) -> int:
    """Wait until one of these processes has begun to execute: which."""
    return int(house.until(lambda: next((pid for pid in among if (house.folder / f"{pid}.begun").exists()), None)))


def test_the_run_that_a_killed_worker_executed_goes_on_in_a_cell(house: Household) -> None:
    pids = set(house.ready().values())
    with house.client() as client:
        handle = client.submit("thread", {"code": HANGS})
        first = executing(house, pids)
        (house.folder / "free").touch()
        os.kill(first, signal.SIGKILL)
        # it was executing when its worker was killed, and nobody knows by whom: a fresh process runs it alone
        assert handle.result(timeout=20) not in pids
    assert house.stop() == 0


def test_many_runs_of_a_killed_worker_go_on(house: Household) -> None:
    house.ready()
    with house.client() as client:
        handles = [client.submit("lane", {"code": "asyncio.get_running_loop(); once('a') and os.kill(os.getpid(), 9)"})]
        handles += [client.submit("thread", {"code": "time.sleep(0.2)"}) for _ in range(60)]
        for handle in handles:
            assert handle.result(timeout=20)
    assert house.stop() == 0


def test_a_clerk_killed_with_a_burial_in_its_hands_loses_nothing(house: Household) -> None:
    pids = set(house.ready().values())
    [clerk] = house.children(role="clerk")
    with house.client() as client:
        handle = client.submit("thread", {"code": HANGS})
        first = executing(house, pids)
        (house.folder / "free").touch()
        os.kill(clerk["pid"], signal.SIGSTOP)
        house.until(lambda: stat_of(clerk["pid"]) == "T")
        os.kill(first, signal.SIGKILL)
        house.said("was killed by SIGKILL")
        os.kill(clerk["pid"], signal.SIGKILL)
        assert handle.result(timeout=20) != first
    assert house.stop() == 0


def test_runs_of_a_killed_supervisor_go_on_at_its_next_start(house: Household) -> None:
    pids = set(house.ready().values())
    with house.client() as client:
        handles = [client.submit("thread", {"code": HANGS}) for _ in range(5)]
        executing(house, pids)
        house.process.kill()
        house.code()
        house.close()
        (house.folder / "free").touch()
        house.start()
        house.ready()
        assert {handle.result(timeout=20) for handle in handles}.isdisjoint(pids)
        house.until(lambda: len(list((house.folder / "run" / "pyrula" / "boxes").iterdir())) == 2)
    assert house.stop() == 0
