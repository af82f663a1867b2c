"""What a worker's tools leave behind goes when the worker goes, and not before; nothing stays a zombie."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.supervisor.household import Household, children_of, gone, household, stat_of

# Tools as user code starts them: a child, one in a session of its own, one with a child of its own, one with an empty
# environment, and one that has cut itself loose.
TOOLS = """
sleep = "exec sleep 1000"
made = [
    subprocess.Popen(["sh", "-c", sleep]),
    subprocess.Popen(["sh", "-c", sleep], start_new_session=True),
    subprocess.Popen(["sh", "-c", "sleep 1000 & echo $! > grandchild; exec sleep 1000"], start_new_session=True),
    subprocess.Popen(["/bin/sh", "-c", "exec /bin/sleep 1000"], start_new_session=True, env={}),
]
loose = subprocess.run(["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!"], capture_output=True).stdout
while not (Path("grandchild").exists() and Path("grandchild").read_text()):
    time.sleep(0.01)
pids = [each.pid for each in made] + [int(loose), int(Path("grandchild").read_text())]
Path("tools.new").write_text(" ".join(map(str, pids)))
Path("tools.new").rename("tools")
time.sleep(1000)
"""


def tools_of(house: Household) -> list[int]:
    path = house.folder / "tools"
    house.until(path.exists)
    return list(map(int, path.read_text().split()))


def vanished(house: Household, pids: Iterable[int]) -> bool:
    """Wait until all of them are dead and reaped."""
    return all(gone(pid) for pid in pids) and bool(house.until(lambda: not any(map(stat_of, pids))))


@pytest.mark.parametrize("end", ["killed", "exited", "crashed"])
def test_none_of_the_tools_outlives_its_worker(tmp_path: Path, end: str) -> None:
    with household(tmp_path) as house, house.client() as client:
        house.ready()
        endings = {"killed": "9", "exited": "os._exit(3)", "crashed": "os.kill(os.getpid(), signal.SIGSEGV)"}
        code = TOOLS if end == "killed" else TOOLS.replace("time.sleep(1000)\n", endings[end])
        client.submit("thread", {"code": f"if once('mark'):\n    exec({code!r}, globals())"})
        tools = tools_of(house)
        if end == "killed":
            [busy] = [row["pid"] for row in house.until(lambda: house.children(turns_running=1))]
            os.kill(busy, signal.SIGKILL)
        assert vanished(house, tools)
        assert house.stop() == 0


def test_nothing_is_left_after_a_stop_that_hurries(tmp_path: Path) -> None:
    with household(tmp_path) as house, house.client() as client:
        house.ready()
        client.submit("thread", {"code": TOOLS})
        tools = tools_of(house)
        house.send(signal.SIGTERM)
        house.said("stopping")
        house.send(signal.SIGTERM)
        assert house.code() == 143
        assert all(gone(pid) for pid in tools)


def test_what_a_living_worker_has_sent_into_the_background_stays(tmp_path: Path) -> None:
    loose = "Path('loose').write_bytes(subprocess.run(['sh', '-c', {!r}], capture_output=True).stdout)"
    code = loose.format("setsid sleep 1000 >/dev/null 2>&1 & echo $!")
    with household(tmp_path) as house, house.client() as client:
        pids = house.ready()
        owner = client.submit("thread", {"code": code}).result(timeout=30)
        background = int((tmp_path / "loose").read_text())
        house.until(lambda: background in children_of(house.pid))
        other = next(pid for pid in pids.values() if pid != owner)
        os.kill(other, signal.SIGKILL)
        house.ready(1)
        # the second look at what the dead one left comes later than all others
        house.until(lambda: not house.children(state="backoff"))
        assert stat_of(background) == "S"
        os.kill(owner, signal.SIGKILL)
        assert vanished(house, [background])


def test_the_unknown_dead_are_reaped(tmp_path: Path) -> None:
    code = "subprocess.run(['sh', '-c', 'for i in 1 2 3 4 5; do setsid sleep 0.01 & echo $! >> loose; done'])"
    with household(tmp_path) as house, house.client() as client:
        pids = house.ready()
        client.submit("thread", {"code": code}).result(timeout=30)
        assert vanished(house, map(int, (tmp_path / "loose").read_text().split()))
        house.until(lambda: not [pid for pid in children_of(house.pid) if stat_of(pid) == "Z"])
        assert set(pids.values()) <= set(children_of(house.pid))


def test_tools_that_outlived_a_killed_supervisor_go_at_the_next_start(tmp_path: Path) -> None:
    with household(tmp_path) as house, house.client() as client:
        house.ready()
        handle = client.submit("thread", {"code": f"if once('mark'):\n    exec({TOOLS!r}, globals())"})
        tools = tools_of(house)
        marked = [tools[0], tools[1], tools[2], tools[4], tools[5]]  # the one with an empty environment has no mark
        house.send(signal.SIGKILL)
        house.process.wait()
        assert all(map(stat_of, marked))
        with household(tmp_path) as again:
            again.ready()
            assert all(gone(pid) for pid in marked)
            handle.result(timeout=30)
            assert again.stop() == 0
        os.kill(tools[3], signal.SIGKILL)
