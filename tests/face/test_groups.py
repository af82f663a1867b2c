"""Tests of one `xdist_group` run in one process.

There are versions of pytest that no longer tell the groups to pytest-xdist, and nobody says so: every process starts a
cluster of its own then, and those who keep a processor keep both.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

GROUPED = """
import pytest

@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("number", range(8))
def test_it(number):
    pass
"""


def test_a_group_keeps_to_one_process(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    (tmp_path / "test_grouped.py").write_text(GROUPED)
    command = [sys.executable, "-m", "pytest", "-v", "-n", "2", "--dist", "loadgroup"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    processes = re.findall(r"\[(gw\d)\] .* PASSED", told)
    assert len(processes) == 8
    assert len(set(processes)) == 1
