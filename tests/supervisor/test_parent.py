"""The parent as a process: it starts, replaces and ends real children, and is not taken down by what they do."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.supervisor.household import APP, Household, gone, household

FOREIGN = ("redis", "hiredis", "apsw", "pydantic", "starlette", "uvicorn", "app", "pyrula", "psutil")
FORBIDDEN = ("stores", "engine", "workflows", "client", "duties", "worker", "child", "clerk", "template", "http")


def test_it_starts_and_ends_its_workers(tmp_path: Path) -> None:
    with household(tmp_path) as house:
        pids = house.ready()
        assert set(pids) == {0, 1}
        everybody = house.descendants()
        assert set(pids.values()) <= everybody
        assert house.stop() == 0
        assert all(gone(pid) for pid in everybody)
    assert list((tmp_path / "run" / "pyrula" / "boxes").iterdir()) == []
    assert list((tmp_path / "run" / "pyrula" / "stacks").iterdir()) == []


def test_it_loads_no_store_no_client_and_no_user_code(tmp_path: Path) -> None:
    with household(tmp_path) as house:
        house.ready()
        house.command("document")
        modules = house.told("modules")
    roots = {name.split(".")[0] for name in modules}
    ours = {name.split(".")[1] for name in modules if name.startswith("pyrula_runtime.")}
    assert roots.isdisjoint(FOREIGN), roots & set(FOREIGN)
    assert ours.isdisjoint(FORBIDDEN), ours & set(FORBIDDEN)


def test_runs_are_executed_and_counted(tmp_path: Path) -> None:
    with household(tmp_path) as house, house.client() as client:
        pids = house.ready()
        done = client.submit("lane", {"code": "pass"}).result(timeout=30)
        assert done in pids.values()
        house.until(lambda: sum(row["turns_done"] for row in house.children(role="worker")) == 1)
        assert house.stop() == 0


@pytest.mark.parametrize("cause", ["os._exit(7)", "os.kill(os.getpid(), signal.SIGSEGV)", "os.kill(os.getpid(), 9)"])
def test_a_worker_that_dies_is_replaced_and_its_run_goes_on(tmp_path: Path, cause: str) -> None:
    with household(tmp_path) as house, house.client() as client:
        pids = house.ready()
        handle = client.submit("lane", {"code": f"if once('mark'): {cause}"})
        how = {"os._exit(7)": "exited with code 7", "os.kill(os.getpid(), 9)": "was killed by SIGKILL"}
        dead = int(house.said(rf"worker \d \(pid (\d+)\) {how.get(cause, 'was killed by SIGSEGV')}")[1])
        assert dead in pids.values()
        assert handle.result(timeout=30) != dead
        house.ready(1)
        [incident] = [each for each in house.document()["incidents"] if each["kind"] not in ("charge", "mark")]
        assert (incident["kind"], sum(row["restarts"] for row in house.children(role="worker"))) == ("death", 1)
        assert house.stop() == 0


def test_the_kill_of_a_worker_is_seen_at_once(tmp_path: Path) -> None:
    with household(tmp_path) as house:
        pids = house.ready()
        os.kill(pids[0], signal.SIGKILL)
        house.said(r"worker 0 \(pid \d+\) was killed by SIGKILL")
        assert house.ready(1).keys() == {0}
        assert pids[1] in house.descendants()


@pytest.mark.parametrize("state", ["starting", "idle", "blocked", "holding the GIL", "stopped"])
def test_nobody_outlives_a_killed_supervisor(tmp_path: Path, state: str) -> None:
    with household(tmp_path) as house, house.client() as client:
        if state != "starting":
            pids = house.ready()
        if state in ("blocked", "holding the GIL"):
            act = "time.sleep" if state == "blocked" else "hold_gil"
            client.submit("lane", {"code": f"Path('begun').touch(); {act}(100)"})
            house.until((tmp_path / "begun").exists)
        if state == "stopped":
            os.kill(pids[0], signal.SIGSTOP)
        everybody = house.until(house.descendants)
        began = time.monotonic()
        house.send(signal.SIGKILL)
        assert all(gone(pid) for pid in everybody)
        # a tenth of a second on a machine that has nothing else to do
        assert time.monotonic() - began < 2


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with household(tmp_path) as house, house.client() as client:
        house.ready()
        client.submit("lane", {"code": "Path('begun').touch(); time.sleep(100)"})
        house.until((tmp_path / "begun").exists)
        everybody = house.descendants()
        house.send(signal.SIGTERM)
        house.said("stopping")
        began = time.monotonic()
        house.send(signal.SIGTERM)
        assert house.code() == 143
        assert time.monotonic() - began < 2
        assert all(gone(pid) for pid in everybody)


def test_two_interrupts_end_it_with_130(tmp_path: Path) -> None:
    with household(tmp_path) as house, house.client() as client:
        house.ready()
        client.submit("thread", {"code": "Path('begun').touch(); time.sleep(100)"})
        house.until((tmp_path / "begun").exists)
        house.send(signal.SIGINT)
        house.said("stopping")
        house.send(signal.SIGINT)
        assert house.code() == 130


def test_an_app_that_fails_at_import_ends_it_with_its_traceback(tmp_path: Path) -> None:
    with household(tmp_path, app="import pyrula\nraise RuntimeError('no such table')\n") as house:
        assert house.code() == 78
    assert any("no such table" in line for line in house.lines)
    assert any("raise RuntimeError('no such table')" in line for line in house.lines)
    assert "READY=1" not in {each.get("notify") for each in told(house)}


def told(house: Household) -> list[dict[str, str]]:
    found = []
    while not house._told.empty():
        found.append(house._told.get())
    return found


def test_an_app_that_hangs_at_import_is_killed_and_shown(tmp_path: Path) -> None:
    app = APP + "\nimport time\ntime.sleep(1000)\n"
    with household(tmp_path, app=app, procs=1, startup_timeout_ms=4_000) as house:
        house.said("is stuck before it is ready")
        house.said(r"app.py.*line \d+|time.sleep")
        house.said("was not ready within 4 s")
        assert house.stop() in (0, 143)


def test_a_pass_that_fails_leaves_no_child_behind(tmp_path: Path) -> None:
    with household(tmp_path) as house:
        house.ready()
        everybody = house.descendants()
        house.command("break")
        assert house.code() == 1
        assert all(gone(pid) for pid in everybody)
    assert any("this is a bug of Pyrula" in line for line in house.lines)


@pytest.mark.parametrize("how", ["time.sleep(100)", "hold_gil(100)", "re.match(r'(a+)+$', 'a' * 40 + 'b')"])
def test_the_stack_of_a_stuck_lane_is_shown(tmp_path: Path, how: str) -> None:
    with household(tmp_path, procs=1) as house, house.client() as client:
        house.ready(1)
        client.submit("lane", {"code": f"Path('begun').touch(); {how}"})
        house.until((tmp_path / "begun").exists)
        house.command("dump 0")
        stack = house.told("answer")
        assert "on_lane" in stack
        assert "app.py" in stack


def test_a_block_is_reported_and_its_end_as_well(tmp_path: Path) -> None:
    with household(tmp_path, procs=1, calling=options(block_warn=0.3)) as house, house.client() as client:
        house.ready(1)
        handle = client.submit("lane", {"code": "while not Path('go').exists(): time.sleep(0.01)"})
        line = house.said(r"worker 0 \(pid \d+\) is blocked for [\d.]+ s by run (\S+) \((\w+), step (\w+)\) at (.*)")
        assert line.groups()[:3] == (handle.run_id, "lane", "on_lane")
        [row] = house.children(state="blocked")
        assert (row["blocked"]["run_id"], row["blocked"]["step"]) == (handle.run_id, "on_lane")
        assert row["blocked"]["gil_held"] is False
        (tmp_path / "go").touch()
        house.said("goes on after")
        handle.result(timeout=30)
        assert house.children(role="worker")[0]["blocked"] is None


def options(**changes: object) -> dict[str, object]:
    return {"options": changes}


def test_many_hangups_make_one_reload_and_one_more(tmp_path: Path) -> None:
    with household(tmp_path, procs=1, reload_settle_ms=0) as house:
        house.ready(1)
        for _ in range(50):
            house.send(signal.SIGHUP)
        document = house.until(lambda: reloaded(house))
        assert document["supervisor"]["generation"] <= 3
        assert house.stop() == 0


def reloaded(house: Household) -> dict[str, dict[str, object]] | None:
    document: dict[str, dict[str, object]] = house.document()
    told_of = document["supervisor"]
    done = told_of["state"] == "running" and isinstance(told_of["generation"], int) and told_of["generation"] > 1
    return document if done and json.dumps(document) else None


# What user code could do with the line of its worker, if it looked for it.
ON_ITS_LINE = """
import socket
def line():
    for fd in map(int, os.listdir('/proc/self/fd')):
        try:
            found = socket.socket(fileno=os.dup(fd))
            if found.type == socket.SOCK_SEQPACKET:
                return found
        except OSError:
            pass
sock = line()
sock.setblocking(True)
"""
NOISE = """
other = Path('other').read_text()
for packet in (
    b'', b'{', b'\\xff' * 100, b'x' * 70000, b'{"is":"Quit"}', b'{"is":"Drain"}',
    b'{"is":"Report","incarnation":"i","turns_running":"many","turns_done":-1}',
    b'{"is":"Queue","incarnation":"i","store_ok":false,"store_url":"lies"}',
    b'{"is":"Buried","incarnation":"%s","run_ids":[],"final":true}' % other.encode(),
    b'{"is":"Forked","incarnation":"%s","pid":1}' % other.encode(),
    b'{"is":"Hello","incarnation":"%s","pid":1}' % other.encode(),
):
    sock.send(packet)
"""
FLOOD = """
import threading
report = ('{"is":"Report","incarnation":"i","turns_running":1,"turns_done":1,"capacity":1,"lane_lag_ms":0,'
          '"draining":false,"store_ok":true}').encode()
def pour():
    while True:
        sock.send(report)
threading.Thread(target=pour, daemon=True).start()
"""


def test_noise_on_a_line_changes_nothing(tmp_path: Path) -> None:
    with household(tmp_path) as house, house.client() as client:
        pids = house.ready()
        [other] = [row["incarnation"] for row in house.children(slot=1)]
        (tmp_path / "other").write_text(other)
        speaker = client.submit("thread", {"code": ON_ITS_LINE + NOISE}).result(timeout=30)
        house.until(lambda: sum(row["turns_done"] for row in house.children(role="worker")) == 1)
        assert {row["pid"] for row in house.children(state="ready", role="worker")} == set(pids.values())
        assert speaker in pids.values()
        assert house.document()["store"]["ok"]
        assert house.stop() == 0


def test_a_flood_on_a_line_delays_nobody(tmp_path: Path) -> None:
    with household(tmp_path) as house, house.client() as client:
        pids = house.ready()
        client.submit("thread", {"code": ON_ITS_LINE + FLOOD}).result(timeout=30)
        began = time.monotonic()
        for _ in range(20):
            house.document()
        assert time.monotonic() - began < 10
        os.kill(pids[0], signal.SIGKILL)
        house.said(r"worker 0 .* was killed by SIGKILL")
        assert house.ready(1).keys() == {0}
        assert house.stop() == 0


def test_files_that_cannot_be_removed_cost_nobody_his_life(tmp_path: Path) -> None:
    with household(tmp_path, procs=1) as house:
        pid = house.ready(1)[0]
        for path in (tmp_path / "run" / "pyrula" / "stacks").iterdir():
            path.unlink()
            path.mkdir()
        os.kill(pid, signal.SIGKILL)
        house.ready(1)
        assert house.stop() == 0
