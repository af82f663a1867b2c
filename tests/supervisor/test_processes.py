"""Clean children, adopted children, foreign children; signals from outside."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pyrula_runtime.blackbox import read_box
from pyrula_runtime.blackbox.layout import box_path
from tests.supervisor.household import household
from tests.supervisor.lines import LIMIT_S, environ_of, open_files, sockets_of

AT_THE_GATE = "Path('begun').touch()\nwhile not Path('go').exists(): time.sleep(0.01)"
NOT_FOR_CHILDREN = {
    "NOTIFY_SOCKET": "/nowhere",
    "WATCHDOG_USEC": "1",
    "WATCHDOG_PID": "1",
    "LISTEN_FDS": "1",
    "LISTEN_PID": "1",
    "LISTEN_FDNAMES": "x",
}


def environ_seen(pid: int) -> dict[str, str]:
    """The environment a process was started with."""
    pairs = (each.partition(b"=") for each in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    return {name.decode(): value.decode() for name, _, value in pairs if name}


def masks(pid: int) -> dict[str, int]:
    """Blocked and ignored signals of a process, as bits, without the two that belong to the C library."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    pairs = (line.split(":\t") for line in lines if line.startswith("Sig"))
    return {name: int(value, 16) & ~(3 << 31) for name, value in pairs if name in ("SigBlk", "SigIgn")}


def test_children_inherit_nothing_that_is_not_theirs(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    pipe = os.readlink(f"/proc/self/fd/{writer}")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGTERM})
    try:
        with household(tmp_path, writer, environ=NOT_FOR_CHILDREN) as house:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            pids = house.ready()
            assert pipe in open_files(house.pid).values()
            sockets = sockets_of(house.pid)
            for row in house.children():
                pid = row["pid"]
                assert pipe not in (files := open_files(pid)).values()
                assert files[0] == "/dev/null"
                assert sockets.isdisjoint(files.values())
                assert environ_seen(pid).keys().isdisjoint(NOT_FOR_CHILDREN)
                assert environ_seen(pid)["PYRULA_INCARNATION"] == row["incarnation"]
                assert environ_seen(pid)["PYRULA_SUPERVISOR"].startswith(f"{house.pid}.")
                assert os.getpgid(pid) == pid
            for pid in pids.values():
                ignored = 1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)
                assert masks(pid) == {"SigBlk": 0, "SigIgn": ignored}
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(reader)
        os.close(writer)


def test_user_code_sees_the_environment_without_them(tmp_path: Path) -> None:
    code = f"Path('seen').write_text(' '.join(set({sorted(NOT_FOR_CHILDREN)}) & set(os.environ)) or 'none')"
    with household(tmp_path, environ=NOT_FOR_CHILDREN) as house, house.client() as client:
        house.ready()
        client.submit("lane", {"code": code}).result(timeout=LIMIT_S)
    assert (tmp_path / "seen").read_text() == "none"


def test_a_worker_says_in_its_title_who_it_is(tmp_path: Path) -> None:
    with household(tmp_path) as house:
        pids = house.ready()
        titles = {Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0 ").decode() for pid in pids.values()}
    assert titles == {"pyrula-worker test[0] serving", "pyrula-worker test[1] serving"}


def test_a_worker_that_is_told_to_leave_by_others_drains_and_is_replaced(tmp_path: Path) -> None:
    with household(tmp_path) as house, house.client() as client:
        pids = house.ready()
        handle = client.submit("thread", {"code": AT_THE_GATE})
        house.until((tmp_path / "begun").exists)
        [busy] = [row["slot"] for row in house.until(lambda: house.children(turns_running=1))]
        os.kill(pids[busy], signal.SIGTERM)
        house.said(rf"worker {busy} \(pid {pids[busy]}\) drains, which nobody here had asked for")
        assert house.ready(1).keys() == {busy}  # before the old one is gone
        (tmp_path / "go").touch()
        assert handle.result(timeout=LIMIT_S) == pids[busy]
        house.said(rf"pid {pids[busy]}\) exited with code 0")
        assert house.document()["incidents"] == []
        assert house.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_what_a_terminal_says_is_for_the_supervisor(tmp_path: Path, number: signal.Signals) -> None:
    with household(tmp_path) as house, house.client() as client:
        pids = house.ready()
        for pid in pids.values():
            os.kill(pid, number)
        assert client.submit("lane", {"code": "pass"}).result(timeout=LIMIT_S) in pids.values()


def test_a_stop_signal_to_everybody_at_once_drains_as_well(tmp_path: Path) -> None:
    with household(tmp_path) as house, house.client() as client:
        house.ready()
        handle = client.submit("thread", {"code": AT_THE_GATE})
        house.until((tmp_path / "begun").exists)
        for pid in (*house.descendants(), house.pid):
            os.kill(pid, signal.SIGTERM)
        house.said("stopping")
        for pid in house.descendants():
            os.kill(pid, signal.SIGTERM)
        (tmp_path / "go").touch()
        assert house.code() == 0
        assert handle.status() == "completed"


def test_a_store_that_nobody_can_write_costs_no_worker_its_life(tmp_path: Path) -> None:
    with household(tmp_path) as house:
        pids = house.ready()
        with (tmp_path / "store" / "runs.db.lock").open("r+b") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            house.until(lambda: not house.document()["store"]["ok"])
            now_ms = time.monotonic_ns() // 1_000_000
            rows = house.children(role="worker", state="ready", stale=False)
            assert {row["pid"] for row in rows} == set(pids.values())
            boxes = [box_path(tmp_path / "run" / "pyrula", row["incarnation"]) for row in rows]
            house.until(lambda: all(view.control_beat_ms > now_ms < view.lane_beat_ms for view in map(seen, boxes)))
        house.until(lambda: house.document()["store"]["ok"])
        assert {row["pid"] for row in house.children(role="worker")} == set(pids.values())


def seen(path: Path) -> Any:
    view = read_box(path)
    assert view is not None
    return view


# What no process should do under a test's own feet: adopt and reap all children. It runs in a process of its own.
ADOPTING = """
import json, os, signal, sys, time
from pyrula_runtime import kernel
from pyrula_runtime.wire import Role
from pyrula_supervisor.processes import Processes

kernel.adopt_descendants()
processes = Processes("mark", os.environ)
reader, writer = os.pipe()

def double_fork(act):
    if (middle := os.fork()) == 0:
        if (pid := os.fork()) == 0:
            act()
            os._exit(5)
        os.write(writer, f"{pid} ".encode())
        os._exit(0)
    os.waitpid(middle, 0)
    return int(os.read(reader, 20))

def until_dead(incarnation):
    while True:
        for death in processes.reap():
            if death.incarnation == incarnation:
                return death
        signal.sigtimedwait({signal.SIGCHLD}, 0.05)

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
told = {}
processes.await_fork("living", Role.worker)
pid = double_fork(lambda: time.sleep(1000))
told["adopted"] = processes.adopt("living", pid) is None and processes.pid_of("living") == pid
for name, number in (("again", pid), ("foreign", os.getppid()), ("itself", os.getpid())):
    processes.await_fork(name, Role.worker)
    try:
        processes.adopt(name, number)
    except ProcessLookupError:
        told[name] = "refused"
    processes.give_up_fork(name)
try:
    processes.adopt("nobody asked", double_fork(lambda: None))
except ProcessLookupError:
    told["nobody asked"] = "refused"
processes.kill("living")
told["killed"] = until_dead("living").status

processes.await_fork("quick", Role.worker)
pid = double_fork(lambda: None)
while not any(death.pid == pid for death in processes.reap()):
    signal.sigtimedwait({signal.SIGCHLD}, 0.05)
told["quick"] = processes.adopt("quick", pid).status
told["awaits"] = processes.awaits_forks
print(json.dumps(told))
"""


def test_forks_are_adopted_whether_they_live_or_are_dead_already(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ADOPTING],
        env=environ_of(tmp_path),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    refused = dict.fromkeys(("again", "foreign", "itself", "nobody asked"), "refused")
    expected = {"adopted": True, "killed": -9, "quick": 5, "awaits": False, **refused}
    assert json.loads(done.stdout) == expected
