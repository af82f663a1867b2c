"""Lanes that stand still in real workers: who is named, who takes over, who is charged, and who never is."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pyrula_runtime.blackbox import read_box
from pyrula_runtime.blackbox.layout import box_path
from pyrula_runtime.client.sync import SyncRunHandle
from pyrula_runtime.core.errors import RunQuarantined
from pyrula_runtime.runtime_dir import runtime_dir
from pyrula_runtime.stores.sqlite import write_lock
from tests.supervisor.household import APP, Household, household, stat_of

# a ladder for people in a hurry: warned at 1.25 s, replaced at 2 s, evacuated at 3 s, ended at 9 s
OPTIONS = {"lock_ttl": 3, "block_warn": 1.25, "replace_after": 2, "evacuate_after": 3, "poison_max_retries": 0}
POLICY = {"lock_ttl_ms": 3_000, "block_warn_ms": 1_250, "replace_after_ms": 2_000, "evacuate_after_ms": 3_000}
BEGUN = "Path(f'{os.getpid()}.begun').touch()\n"
FREE = "while not Path('free').exists(): time.sleep(0.01)"
REGEX = "re.match('(a+)+b', 'a' * 64)"
# whoever takes the GIL in the middle of a write of its process is ended sooner, see below
BETWEEN_WRITES = """
from pyrula_runtime.stores.sqlite import write_lock
for lock in write_lock._registry.values():
    with lock.held(): pass
"""
KEEPS_LOCK = """
from pyrula_runtime.stores.sqlite import write_lock
[lock] = write_lock._registry.values()
kept = lock.held()
kept.__enter__()
"""
APART = """
@workflow(isolation="turn")
async def apart(ctx, code: str) -> int:
    return await ctx.step(on_lane, code)
"""
OF_NOBODY = f"""
import contextvars
def stands():
    {FREE}
contextvars.Context().run(asyncio.get_running_loop().call_later, 0.1, stands)
"""
WAITING = """
@step
async def waits(seconds):
    await asyncio.sleep(0 if Path("soon").exists() else seconds)
    return os.getpid()

@workflow
async def waiting(ctx, seconds: float) -> int:
    return await ctx.step(waits, seconds)
"""

# whoever keeps a processor does so beside one other such test at most
COMPUTES = pytest.mark.xdist_group("processor")


def hurried(folder: Path, **policy: Any) -> Any:
    """A supervisor with that ladder."""
    given: Mapping[str, Any] = {"calling": {"options": OPTIONS}, "app": APP + WAITING, **POLICY, **policy}
    return household(folder, **given)


@pytest.fixture(params=["spawn", "template"])
def house(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Household]:
    """A supervisor of two workers, of either start method."""
    with hurried(tmp_path, start_method=request.param) as made:
        yield made


def begun(house: Household) -> int:
    """Wait until code has begun: in which process."""
    return int(house.until(lambda: next((path.stem for path in house.folder.glob("*.begun")), None)))


def incidents(house: Household, kind: str) -> list[dict[str, Any]]:
    """The incidents of a kind, newest first."""
    return [each for each in house.document()["incidents"] if each["kind"] == kind]


def quarantined(handle: SyncRunHandle[Any]) -> tuple[str, Any]:
    """Wait until a run is in quarantine: the kind of its error, and the evidence."""
    with pytest.raises(RunQuarantined) as refused:
        handle.result(timeout=120)
    error = refused.value.error
    assert error is not None
    detail: Any = error.detail
    return error.type, detail["evidence"]


def test_a_block_is_named_and_a_surge_takes_over(house: Household) -> None:
    house.ready()
    with house.client() as client:
        blocking = client.submit("lane", {"code": BEGUN + FREE})
        stuck = begun(house)
        told = house.said(rf"worker \d \(pid {stuck}\) is blocked for .* by run (\S+) \(lane, step on_lane\) at (.+)$")
        assert told[1] == blocking.run_id
        surge = int(house.said(r"surge \d \(pid (\d+)\) is ready")[1])
        [by] = [row["blocked"] for row in house.children(pid=stuck)]
        assert (by["run_id"], by["workflow"], by["step"]) == (blocking.run_id, "lane", "on_lane")
        assert (by["gil_held"], by["line"]) == (False, told[2])
        assert by["for_s"] >= 1.5
        assert by["stack"]
        assert by["hint"]
        assert [row["role"] for row in house.children(pid=surge)] == ["surge"]
        for neighbour in [client.submit("lane", {"code": "0"}) for _ in range(6)]:
            assert neighbour.result(timeout=20) != stuck
        (house.folder / "free").touch()
        house.said(rf"worker \d \(pid {stuck}\) exited with code 0")
        assert blocking.result(timeout=20) == stuck, "it goes on where it was"
        house.until(lambda: house.children(role="worker", pid=surge))
        assert not blocking.describe()["charges"]
        assert {each["verdict"] for each in incidents(house, "block")} <= {"blocked", "starved"}
        assert incidents(house, "surge")
        assert incidents(house, "charge") == incidents(house, "death") == []
    assert house.stop() == 0


@COMPUTES
def test_a_run_that_holds_the_gil_is_named_charged_and_put_in_quarantine(house: Household) -> None:
    house.ready()
    with house.client() as client:
        guilty = client.submit("lane", {"code": BEGUN + BETWEEN_WRITES + REGEX})
        stuck = begun(house)
        told = house.said(rf"\(pid {stuck}\) is blocked for (\S+) s with the GIL held by run (\S+) \(lane, .* at (.+)$")
        assert float(told[1]) >= 1.25
        assert told[2] == guilty.run_id
        assert "on_lane" in told[3] or "<string>" in told[3] or "app.py" in told[3]
        house.said(r"surge \d \(pid \d+\) is ready")
        assert client.submit("lane", {"code": "0"}).result(timeout=20) != stuck
        kind, evidence = quarantined(guilty)
        assert (kind, evidence["step"]) == ("EventLoopBlocked", "on_lane")
        assert "match" in evidence["stack"]
        assert evidence["line"]
        assert {each["verdict"] for each in incidents(house, "block")} <= {"held_on_cpu", "held_waiting", "starved"}
        house.until(lambda: incidents(house, "quarantine"))
        for kind in ("charge", "quarantine", "death"):
            assert [each["run_id"] for each in incidents(house, kind)] == [guilty.run_id]
        house.until(lambda: {row["state"] for row in house.children(role="worker")} == {"ready"})
    assert house.stop() == 0


@COMPUTES
def test_a_thread_that_holds_the_gil_is_told_from_the_lane(tmp_path: Path) -> None:
    with hurried(tmp_path, procs=1) as house, house.client() as client:
        house.ready(1)
        guilty = client.submit("thread", {"code": BEGUN + BETWEEN_WRITES + REGEX})
        stuck = begun(house)
        told = house.said(rf"\(pid {stuck}\) is blocked for .* with the GIL held by run (\S+) \(thread, .* at (.+)$")
        assert (told[1], "in_thread" in told[2]) == (guilty.run_id, True)
        house.command("dump 0")
        assert "in_thread" in house.told("answer")
        kind, evidence = quarantined(guilty)
        assert (kind, evidence["step"]) == ("EventLoopBlocked", "in_thread")
        assert {each["run_id"] for each in incidents(house, "block")} == {guilty.run_id}


@COMPUTES
def test_an_isolated_turn_that_holds_the_gil_is_told_from_the_lane(tmp_path: Path) -> None:
    with hurried(tmp_path, procs=1, app=APP + WAITING + APART) as house, house.client() as client:
        house.ready(1)
        guilty = client.submit("apart", {"code": BEGUN + BETWEEN_WRITES + REGEX})
        stuck = begun(house)
        told = house.said(rf"\(pid {stuck}\) is blocked for .* with the GIL held by run (\S+) \(apart, step on_lane\)")
        assert told[1] == guilty.run_id
        kind, evidence = quarantined(guilty)
        assert (kind, evidence["step"]) == ("EventLoopBlocked", "on_lane")
        assert {each["run_id"] for each in incidents(house, "block")} == {guilty.run_id}


@COMPUTES
def test_a_worker_that_keeps_the_stores_lock_with_the_gil_is_killed_at_once(tmp_path: Path) -> None:
    """Or the host would stand still until the limit. One such kill proves nothing; in a cell the third does."""
    with hurried(tmp_path) as house, house.client() as client:
        house.ready()
        guilty = client.submit("lane", {"code": BEGUN + KEEPS_LOCK + REGEX})
        stuck = begun(house)
        house.said(rf"\(pid {stuck}\) was killed by SIGKILL .* with the store's write lock")
        neighbours = [client.submit("lane", {"code": "0"}) for _ in range(4)]
        for neighbour in neighbours:
            assert neighbour.result(timeout=60) != stuck
            assert not neighbour.describe()["charges"]
        kind, evidence = quarantined(guilty)
        assert (kind, evidence["step"]) == ("StoreFrozen", "on_lane")
        assert "match" in evidence["stack"]
        house.until(lambda: incidents(house, "quarantine"))
        assert {each["run_id"] for each in incidents(house, "charge")} == {guilty.run_id}
        assert len(incidents(house, "store_frozen")) == 4


def test_a_worker_that_is_given_the_stores_lock_while_it_keeps_the_gil_is_killed_as_well(tmp_path: Path) -> None:
    """It waited for the lock when its code took the GIL, so it could never say that it has it."""
    waits = """
from pyrula_runtime.stores.sqlite import write_lock
[lock] = write_lock._registry.values()
while not lock.waiting_since or not Path("kept").exists(): time.sleep(0.01)
Path("hogs").touch()
"""
    with hurried(tmp_path) as house, house.client() as client:
        house.ready()
        client.submit("lane", {"code": BEGUN + waits + REGEX})
        stuck = begun(house)
        lock = write_lock.obtain(tmp_path / "store" / "runs.db.lock")
        with lock.held():
            (tmp_path / "kept").touch()
            house.until((tmp_path / "hogs").exists)
        write_lock.give_up(lock)
        house.said(rf"\(pid {stuck}\) was killed by SIGKILL .* with the store's write lock")


@pytest.mark.parametrize("code", [FREE, REGEX])
def test_innocents_of_a_stuck_lane_go_on_elsewhere_uncharged(tmp_path: Path, code: str) -> None:
    with hurried(tmp_path, procs=1) as house, house.client() as client:
        house.ready(1)
        innocents = [client.submit("waiting", {"seconds": 60}) for _ in range(3)]
        house.until(lambda: [row["turns_running"] for row in house.children(role="worker")] == [3])
        (tmp_path / "soon").touch()
        client.submit("lane", {"code": BEGUN + BETWEEN_WRITES + code})
        stuck = begun(house)
        house.said(rf"3 runs of worker 0 \(pid {stuck}\) were handed back, uncharged")
        for each in innocents:
            assert each.result(timeout=20) != stuck
            assert not each.describe()["charges"]
            assert not each.describe()["marks"]
        assert len(incidents(house, "evacuation")) == 1
        (tmp_path / "free").touch()


def test_code_of_no_run_is_replaced_and_ended_and_nobody_is_charged(tmp_path: Path) -> None:
    with hurried(tmp_path, procs=1) as house, house.client() as client:
        house.ready(1)
        client.submit("lane", {"code": OF_NOBODY}).result(timeout=20)
        stuck = int(house.said(r"worker 0 \(pid (\d+)\) is blocked for .* by code of no run")[1])
        house.said(r"surge 0 \(pid \d+\) is ready")
        house.said(rf"worker 0 \(pid {stuck}\) is killed: code of no run blocked it for ")
        house.said("was killed by SIGKILL")
        house.until(lambda: house.document()["queue"]["suspects"] == 0)
        assert incidents(house, "charge") == incidents(house, "mark") == []


def test_a_run_that_crashes_its_worker_among_others_is_found_in_a_cell(tmp_path: Path) -> None:
    with hurried(tmp_path, procs=1) as house, house.client() as client:
        house.ready(1)
        innocent = client.submit("thread", {"code": f"once('a') or os.getpid()\n{FREE}"})
        house.until((tmp_path / "a").exists)
        guilty = client.submit("lane", {"code": BEGUN + "ctypes.string_at(0)"})
        house.said("was killed by SIGSEGV")
        (tmp_path / "free").touch()
        house.said(r"cell \(pid \d+\) is ready")
        kind, evidence = quarantined(guilty)
        assert kind == "WorkerCrashed"
        assert evidence["line"]
        assert "string_at" in evidence["stack"]
        innocent.result(timeout=30)
        assert not innocent.describe()["charges"]
        house.until(lambda: [each["run_id"] for each in incidents(house, "quarantine")] == [guilty.run_id])
        assert guilty.run_id in [each["run_id"] for each in incidents(house, "mark")]


def stopped_without_lock(house: Household, pid: int) -> bool:
    """Stop a worker, and let it go on if it has the store's write lock just now: that would be killed for it."""
    os.kill(pid, signal.SIGSTOP)
    house.until(lambda: stat_of(pid) == "T")
    (child,) = house.children(pid=pid)
    view = read_box(box_path(runtime_dir(house.environ), child["incarnation"]))
    if view is not None and view.store_lock_since_ms == 0:
        return True
    os.kill(pid, signal.SIGCONT)
    return False


def test_a_stopped_worker_is_shown_and_nothing_else(tmp_path: Path) -> None:
    with hurried(tmp_path, procs=1) as house:
        pid = house.ready(1)[0]
        house.until(lambda: stopped_without_lock(house, pid))
        house.until(lambda: house.children(pid=pid, stands="stopped"))
        assert any("is stopped" in each for each in house.document()["supervisor"]["degraded"])
        house.until(lambda: house.children(pid=pid, stale=True))  # longer than any rung but the last
        os.kill(pid, signal.SIGCONT)
        house.until(lambda: house.children(pid=pid, stands="", stale=False))
        assert house.document()["incidents"] == []
        assert house.children(role="surge") == []
        assert house.stop() == 0


def test_a_run_that_takes_all_the_memory_is_charged(tmp_path: Path) -> None:
    with hurried(tmp_path, procs=1, max_rss_bytes=120 << 20) as house, house.client() as client:
        house.ready(1)
        greedy = client.submit("thread", {"code": "kept = b'x' * (300 << 20)\ntime.sleep(60)"})
        house.said("is killed: it has .* of memory, far more than 120 MiB")
        kind, evidence = quarantined(greedy)
        assert kind == "OutOfMemory"
        assert evidence["rss_bytes"] > 240 << 20
        assert [each["verdict"] for each in incidents(house, "memory")] == ["out_of_memory"]
        assert house.stop() == 0


def test_a_thread_that_waits_with_the_gil_is_found_in_a_cell(tmp_path: Path) -> None:
    with hurried(tmp_path) as house, house.client() as client:
        house.ready()
        innocents = [client.submit("waiting", {"seconds": 3}) for _ in range(4)]
        # after the writing that goes with a start: whoever has the store's lock then is killed for that, and sooner
        guilty = client.submit("thread", {"code": BEGUN + "time.sleep(0.3); hold_gil(3600)"})
        stuck = begun(house)
        house.said(rf"\(pid {stuck}\) is killed: a thread of which nobody can tell whose it is .*, at .* hold_gil")
        house.said(r"cell \(pid \d+\) is killed: ")
        kind, evidence = quarantined(guilty)
        assert kind in ("EventLoopBlocked", "StoreFrozen")
        assert evidence["step"] == "in_thread"
        assert "hold_gil" in evidence["stack"]
        for each in innocents:
            each.result(timeout=30)
            assert not each.describe()["charges"]
        [charge] = house.until(lambda: incidents(house, "charge"))
        assert charge["run_id"] == guilty.run_id
