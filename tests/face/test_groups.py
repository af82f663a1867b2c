"""Tests of one `xdist_group` run in one process.

There are versions of pytest that no longer tell the groups to pytest-xdist, and nobody says so: every process starts a
cluster of its own then, and those who keep a processor keep both.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

GROUPED = """
import os
from pathlib import Path

import pytest

@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("number", range(8))
def test_it(number):
    Path(f"{number}.ran").write_text(os.environ["PYTEST_XDIST_WORKER"])
"""


def test_a_group_keeps_to_one_process(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    (tmp_path / "test_grouped.py").write_text(GROUPED)
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadgroup"]
    # not what whoever started this run wants of it, nor that this is a process of xdist
    env = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    ended = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    processes = [path.read_text() for path in tmp_path.glob("*.ran")]
    assert len(processes) == 8
    assert len(set(processes)) == 1
