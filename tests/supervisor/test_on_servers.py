"""A supervisor whose store is a server or a cluster keeps every promise that it keeps on a file."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from pyrula_runtime.core.errors import RunCancelled
from tests.faults.keeping import KEEPING, kinds
from tests.supervisor.household import APP, Household, household
from tests.supervisor.test_ladder import BEGUN, FREE, OPTIONS, POLICY, REGEX, WAITING, begun, incidents, quarantined

# long enough that nothing but a burial can free a run within a test, and short enough for whoever waits in vain
LIMIT_S = 20
HANGS = "Path(f'{os.getpid()}.begun').touch(); time.sleep(0 if Path('free').exists() else 100)"


@contextmanager
def on_server(folder: Path, kind: str, options: Mapping[str, Any] | None = None, **policy: Any) -> Iterator[Household]:
    """A supervisor of two workers over a namespace of its own."""
    kept = KEEPING[kind]()
    assert kept is not None
    calling = {"store_url": kept.url, "options": dict(options or {})}
    with household(folder, app=APP + WAITING, calling=calling, start_method="template", **policy) as house:
        yield house
    assert kept.audit() == []


def hurried(folder: Path) -> AbstractContextManager[Household]:
    """One worker, with a ladder for people in a hurry."""
    return on_server(folder, "valkey", OPTIONS, procs=1, **POLICY)


@pytest.mark.parametrize("kind", kinds("valkey", "cluster"))
def test_many_runs_end_and_a_drain_ends_in_order(tmp_path: Path, kind: str) -> None:
    with on_server(tmp_path, kind) as house, house.client() as client:
        pids = set(house.ready().values())
        handles = [client.submit("lane", {"code": "0"}) for _ in range(100)]
        assert {handle.result(timeout=LIMIT_S) for handle in handles} <= pids
        store = house.until(lambda: (told := house.document()["store"])["ok"] and told)
        assert store["url"].startswith(("unix://", "valkey://"))
        assert house.stop() == 0


@pytest.mark.parametrize("kind", kinds("valkey", "cluster"))
def test_runs_of_a_killed_worker_and_of_a_killed_supervisor_go_on(tmp_path: Path, kind: str) -> None:
    with on_server(tmp_path, kind) as house, house.client() as client:
        pids = set(house.ready().values())
        hanging = client.submit("thread", {"code": HANGS})
        first = begun(house)
        (tmp_path / "free").touch()
        os.kill(first, signal.SIGKILL)
        assert hanging.result(timeout=LIMIT_S) not in pids
        (tmp_path / "free").unlink()
        handles = [client.submit("thread", {"code": HANGS}) for _ in range(5)]
        house.until(lambda: house.document()["queue"]["running"] == 5)
        house.process.kill()
        house.code()
        house.close()
        (tmp_path / "free").touch()
        house.start()
        house.ready()
        for handle in handles:
            assert handle.result(timeout=LIMIT_S)
        assert house.stop() == 0


def test_a_drained_run_goes_on_and_a_cancelled_one_unwinds(tmp_path: Path) -> None:
    with on_server(tmp_path, "valkey", options={"shutdown_grace": 0.1}) as house, house.client() as client:
        house.ready()
        drained, cancelled = (client.submit("waiting", {"seconds": 60}) for _ in range(2))
        house.until(lambda: sum(row["turns_running"] for row in house.children(role="worker")) == 2)
        cancelled.cancel()
        with pytest.raises(RunCancelled):
            cancelled.result(timeout=LIMIT_S)
        assert house.stop() == 0
        assert drained.status() == "queued"
        house.close()
        (tmp_path / "soon").touch()
        house.start()
        house.ready()
        assert drained.result(timeout=LIMIT_S)
        assert not drained.describe()["charges"]
        assert house.stop() == 0


def test_who_crashes_its_worker_is_found_in_a_cell_and_quarantined(tmp_path: Path) -> None:
    with hurried(tmp_path) as house, house.client() as client:
        house.ready(1)
        innocent = client.submit("thread", {"code": f"once('a') or os.getpid()\n{FREE}"})
        house.until((tmp_path / "a").exists)
        guilty = client.submit("lane", {"code": BEGUN + "ctypes.string_at(0)"})
        house.said("was killed by SIGSEGV")
        (tmp_path / "free").touch()
        house.said(r"cell \(pid \d+\) is ready")
        kind, evidence = quarantined(guilty)
        assert (kind, "string_at" in evidence["stack"]) == ("WorkerCrashed", True)
        innocent.result(timeout=LIMIT_S)
        assert not innocent.describe()["charges"]
        house.until(lambda: [each["run_id"] for each in incidents(house, "quarantine")] == [guilty.run_id])
        assert house.stop() == 0


@pytest.mark.nightly
def test_who_holds_the_gil_is_quarantined_and_its_neighbours_go_on_elsewhere(tmp_path: Path) -> None:
    with hurried(tmp_path) as house, house.client() as client:
        house.ready(1)
        innocents = [client.submit("waiting", {"seconds": 60}) for _ in range(3)]
        house.until(lambda: [row["turns_running"] for row in house.children(role="worker")] == [3])
        (tmp_path / "soon").touch()
        guilty = client.submit("lane", {"code": BEGUN + REGEX})
        stuck = begun(house)
        house.said(rf"3 runs of worker 0 \(pid {stuck}\) were handed back, uncharged")
        for each in innocents:
            assert each.result(timeout=LIMIT_S) != stuck
            assert not each.describe()["charges"]
        kind, evidence = quarantined(guilty)
        assert (kind, evidence["step"]) == ("EventLoopBlocked", "on_lane")
        assert house.stop() == 0


def test_workers_share_the_shards_and_whoever_cannot_begin_a_turn_has_none(tmp_path: Path) -> None:
    # no lease lapses within the test
    options = {"shard_count": 8, "shard_lease_ttl": 600, "shard_lease_interval": 300, "max_concurrent_turns": 2}
    with on_server(tmp_path, "valkey", options) as house, house.client() as client:
        house.ready()

        def shares() -> list[int]:
            return sorted(row["shards"] for row in house.children(role="worker"))

        house.until(lambda: shares() == [4, 4])
        killed = house.children(role="worker")[0]["pid"]
        os.kill(killed, signal.SIGKILL)
        house.until(lambda: killed not in [row["pid"] for row in house.children(role="worker")])
        house.until(lambda: shares() == [4, 4])
        blocking = client.submit("lane", {"code": BEGUN + FREE})
        stuck = begun(house)
        house.until(lambda: shares() == [0, 8])
        assert [row["shards"] for row in house.children(pid=stuck)] == [0]
        # every shard is looked at by the other one
        handles = [client.submit("thread", {"code": "0"}) for _ in range(20)]
        assert stuck not in {handle.result(timeout=LIMIT_S) for handle in handles}
        (tmp_path / "free").touch()
        blocking.result(timeout=LIMIT_S)
        house.until(lambda: shares() == [4, 4])
        assert house.stop() == 0
