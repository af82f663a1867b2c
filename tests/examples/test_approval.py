"""The tests of the approval example are what its users would run: with pytest alone, and no plugin of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def pytest_alone(folder: Path, *args: str) -> str:
    """What pytest says to the tests of a folder, which all have to pass."""
    environ = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "-p", "no:cacheprovider", *args]
    told = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=120)
    assert told.returncode == 0, told.stdout
    return told.stdout


def test_its_tests_pass() -> None:
    told = pytest_alone(ROOT, "--rootdir", str(ROOT), "--import-mode=importlib", "examples/approval")
    assert re.search(r"^4 passed", told, re.MULTILINE)
