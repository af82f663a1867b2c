"""The orders at work, as `make run` shows them: with a real supervisor, which is killed, drained and interrupted."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]

ROOT = Path(__file__).parents[2]
_LIMIT_S = 120


@contextmanager
def demo(folder: Path, *args: str) -> Iterator[subprocess.Popen[str]]:
    """The demonstration in a process; its store, temporary files and runtime directory are in `folder`."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYRULA_", "XDG_"))}
    environ |= {"XDG_STATE_HOME": str(folder), "TMPDIR": str(folder)}
    command = [sys.executable, "-m", "examples.orders.demo", *args]
    with subprocess.Popen(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True) as process:
        left = []
        try:
            yield process
        finally:
            if process.poll() is None:
                left = psutil.Process(process.pid).children(recursive=True)
                process.kill()
            for each in left:
                with suppress(psutil.NoSuchProcess):
                    each.kill()


def supervisor_of(process: subprocess.Popen[str]) -> psutil.Process:
    """The supervisor of a demonstration; its other children are those that watch."""
    (found,) = (each for each in psutil.Process(process.pid).children() if "status" not in each.cmdline())
    return found


def line_with(process: subprocess.Popen[str], words: str) -> str:
    """The next line that has these words, waited for."""
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if words in line:
            return line
    raise AssertionError(f"no line with {words!r} in\n{''.join(seen)}")


def rest_of(process: subprocess.Popen[str]) -> str:
    return process.communicate(timeout=_LIMIT_S)[0]


def test_once_ends_by_itself_and_leaves_nothing(tmp_path: Path) -> None:
    with demo(tmp_path, "--once", "--orders", "20") as process:
        told = rest_of(process)
    assert process.returncode == 0, told
    assert "18 completed, 2 compensated (card declined, stock released), 0 failed" in told
    assert "everything was done once" in told
    assert "release_stock#1" in told  # the timeline of an order that was compensated
    assert list(tmp_path.iterdir()) == []


def test_a_killed_worker_is_replaced_and_every_order_ends(tmp_path: Path) -> None:
    with demo(tmp_path, "--once", "--orders", "200") as process:
        line_with(process, "200 orders ended")
        workers = [each for each in supervisor_of(process).children() if "pyrula-worker" in each.cmdline()[0]]
        workers[0].kill()
        told = rest_of(process)
    assert process.returncode == 0, told
    assert "180 completed, 20 compensated (card declined, stock released), 0 failed" in told


def test_a_killed_supervisor_is_started_again_and_every_order_ends(tmp_path: Path) -> None:
    with demo(tmp_path, "--once", "--orders", "200") as process:
        line_with(process, "200 orders ended")
        supervisor = supervisor_of(process)
        supervisor.kill()
        assert str(supervisor.pid) in line_with(process, "was ended by SIGKILL")
        told = rest_of(process)
    assert process.returncode == 0, told
    assert "180 completed, 20 compensated (card declined, stock released), 0 failed" in told


def test_the_workers_go_on_until_ctrl_c(tmp_path: Path) -> None:
    with demo(tmp_path, "--orders", "5") as process:
        line_with(process, "end it with Ctrl-C")
        supervisor = supervisor_of(process)
        workers = supervisor.children()
        assert len(workers) >= 4
        process.send_signal(signal.SIGINT)
        told = rest_of(process)
    assert process.returncode == 0, told
    assert "draining" in told
    assert not any(each.is_running() for each in (supervisor, *workers))
    assert (tmp_path / "pyrula" / "pyrula.db").exists()


def test_ctrl_c_before_the_end_drains_as_well(tmp_path: Path) -> None:
    with demo(tmp_path, "--orders", "300") as process:
        line_with(process, "300 orders ended")
        process.send_signal(signal.SIGINT)
        told = rest_of(process)
    assert process.returncode == 0, told


def test_a_supervisor_that_cannot_start_is_told(tmp_path: Path) -> None:
    environ = {**os.environ, "PYRULA_LOCK_TTL": "-1"}
    command = [sys.executable, "-m", "examples.orders.demo", "--once", "--orders", "1"]
    ended = subprocess.run(
        command, cwd=ROOT, env=environ | {"TMPDIR": str(tmp_path)}, capture_output=True, text=True, timeout=_LIMIT_S
    )
    assert ended.returncode == 1
    assert "the supervisor ended with exit code 78" in ended.stdout
    assert "lock_ttl" in ended.stdout


def test_make_run_is_the_demonstration() -> None:
    told = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", "run", "ONCE=1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert told.rstrip().endswith("-m examples.orders.demo --once")


def test_examples_use_the_public_face_alone() -> None:
    names = set()
    for path in (ROOT / "examples").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names.add(node.module or "")
    ours = {name for name in names if name.startswith("pyrula")}
    assert ours <= {"pyrula.workflows", "pyrula.workflows.sync", "pyrula.testing"}
