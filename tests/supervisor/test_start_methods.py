"""How workers come to life under a real supervisor: forked where the app allows it, and what follows where not."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.supervisor.household import APP, Household, children_of, gone, household
from tests.supervisor.lines import sockets_of
from tests.supervisor.sites import SupervisedSite

THREAD = "\nimport threading\nthreading.Thread(target=threading.Event().wait, daemon=True, name='exporter').start()\n"
SOCKET = "\nimport socket\nPOOL = socket.create_server(('127.0.0.1', 0))\n"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[SupervisedSite]:
    made = SupervisedSite(tmp_path)
    yield made
    made.close()


def template_of(house: Household) -> int:
    """The pid of the template that has become ready."""
    return int(house.said(r"template \(pid (\d+)\) is ready")[1])


def test_workers_are_forks_and_children_of_the_supervisor(tmp_path: Path) -> None:
    with household(tmp_path, start_method="auto", procs=3) as house, house.client() as client:
        template = template_of(house)
        pids = set(house.ready(3).values())
        assert pids < set(children_of(house.pid))
        assert children_of(template) == []
        assert house.document()["supervisor"]["start_method"] == "template"
        assert client.submit("lane", {"code": "pass"}).result(timeout=20) in pids
        everybody = house.descendants()
        assert house.stop() == 0
        assert all(gone(pid) for pid in everybody)


@pytest.mark.parametrize(("hazard", "name"), [(THREAD, "thread 'exporter'"), (SOCKET, "IP socket at 127.0.0.1")])
def test_auto_spawns_what_cannot_be_forked_and_says_why(tmp_path: Path, hazard: str, name: str) -> None:
    with household(tmp_path, app=APP + hazard, start_method="auto") as house, house.client() as client:
        house.said("workers start as fresh interpreters")
        assert name in house.lines[-1]
        pids = set(house.ready().values())
        told = house.document()["supervisor"]
        assert (told["start_method"], name in told["start_method_reason"]) == ("spawn", True)
        assert client.submit("lane", {"code": "pass"}).result(timeout=20) in pids
        os.kill(min(pids), signal.SIGKILL)
        house.ready(1)
        assert house.stop() == 0
    assert sum("start as fresh interpreters" in line for line in house.lines) == 1


def test_a_template_that_was_asked_for_and_cannot_be_ends_the_start(tmp_path: Path) -> None:
    with household(tmp_path, app=APP + THREAD, start_method="template") as house:
        assert house.code() == 78
    assert any("thread 'exporter'" in line for line in house.lines)


def test_an_import_error_is_shown_once_and_ends_the_start(tmp_path: Path) -> None:
    app = "def settings():\n    raise KeyError('DATABASE')\nopen('tries', 'a').write('x')\nsettings()\n"
    with household(tmp_path, app=app, start_method="auto") as house:
        assert house.code() == 78
    assert (tmp_path / "tries").read_text() == "x"
    assert sum("line 2, in settings" in line for line in house.lines) == 1
    assert any("KeyError: 'DATABASE'" in line for line in house.lines)


def test_an_import_that_hangs_shows_where_and_ends_the_start(tmp_path: Path) -> None:
    app = APP + "\ndef connect():\n    time.sleep(1000)\nconnect()\n"
    with household(tmp_path, app=app, start_method="auto", startup_timeout_ms=4_000) as house:
        assert house.code() not in (0, 78)
    assert any("in connect" in line for line in house.lines)


@pytest.mark.parametrize("method", ["spawn", "template"])
def test_a_hook_that_hangs_between_fork_and_ready_is_shown_and_killed(tmp_path: Path, method: str) -> None:
    app = APP + "\nimport threading\nLOCK = threading.Lock()\nLOCK.acquire()\ndef hook():\n    LOCK.acquire()\n"
    hook = {"after_fork": "app:hook"}
    with household(tmp_path, app=app, calling=hook, start_method=method, procs=1, startup_timeout_ms=4_000) as house:
        house.said("is stuck before it is ready")
        house.said("in hook")
        first = house.said(r"worker 0 \(pid (\d+)\) was killed by SIGKILL")[1]
        # counted as a failed start, and tried again
        house.until(lambda: house.children(role="worker", state="starting"))
        assert house.children(role="worker")[0]["pid"] != int(first)
        assert house.children(role="worker")[0]["restarts"] == 1
        assert house.stop() == 0


def test_templates_die_twenty_times_and_no_slot_is_lost(tmp_path: Path) -> None:
    with household(tmp_path, start_method="auto", pace_ms=[0]) as house, house.client() as client:
        template = template_of(house)
        pids = house.ready()
        for number in range(20):
            os.kill(template, signal.SIGKILL)
            assert gone(template)
            slot = number % 2
            os.kill(pids[slot], signal.SIGKILL)
            template = template_of(house)
            assert pids.keys() == {0, 1}
            pids |= house.ready(1)
            sibling = pids[1 - slot]
            assert client.submit("lane", {"code": "pass"}).result(timeout=20) in pids.values()
            assert Path(f"/proc/{sibling}").exists()
        assert house.stop() == 0


def test_templates_that_die_while_they_are_asked_to_fork_cost_no_slot(tmp_path: Path) -> None:
    with household(tmp_path, start_method="auto", pace_ms=[0]) as house:
        house.ready()
        for number in range(10):
            before = ready_pids(house)
            os.kill(before[number % 2], signal.SIGKILL)
            for template in templates_of(house):
                os.kill(template, signal.SIGKILL)
            house.until(lambda: before[number % 2] not in ready_pids(house).values())  # noqa: B023 - called at once
            house.until(lambda: ready_pids(house).keys() == {0, 1})
        assert house.stop() == 0


def ready_pids(house: Household) -> dict[int, int]:
    """The pids of the workers that serve, by slot."""
    return {row["slot"]: row["pid"] for row in house.children(role="worker", state="ready")}


def templates_of(house: Household) -> list[int]:
    """The pids of whoever is called a template, among the supervisor's children."""
    titles = {pid: Path(f"/proc/{pid}/cmdline") for pid in children_of(house.pid)}
    return [pid for pid, title in titles.items() if title.exists() and b"template" in title.read_bytes()]


def test_a_killed_template_disturbs_nobody(tmp_path: Path) -> None:
    with household(tmp_path, start_method="auto") as house, house.client() as client:
        template = template_of(house)
        pids = set(house.ready().values())
        os.kill(template, signal.SIGKILL)
        house.said(r"template \(pid \d+\) was killed by SIGKILL")
        assert client.submit("lane", {"code": "pass"}).result(timeout=20) in pids
        assert {row["pid"] for row in house.children(role="worker", state="ready")} == pids
        assert house.stop() == 0


def test_a_fork_has_neither_port_nor_control_socket(site: SupervisedSite) -> None:
    supervisor = site.supervise("--procs", "2", health=True)
    supervisor.said_ready(2)
    told = site.status()
    workers = [row["pid"] for row in told["children"] if row["role"] == "worker"]
    assert told["supervisor"]["start_method"] == "template"
    shared = [sockets_of(pid) & sockets_of(told["supervisor"]["pid"]) for pid in workers]
    assert shared == [set(), set()]
    assert sockets_of(workers[0]) & sockets_of(workers[1]) == set()
    assert supervisor.stop() == 0


def test_a_template_is_not_overrun_by_a_crowd_of_slots(tmp_path: Path) -> None:
    with household(tmp_path, procs=40, start_method="template") as house:
        house.ready(40)
        assert house.stop() == 0
        assert not any("did not take an order" in line for line in house.lines)
