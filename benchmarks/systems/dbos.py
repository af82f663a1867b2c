"""DBOS on SQLite, in a Python environment of its own so that the product's stays as it is installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from benchmarks.bench import CHECKOUT, Home, Launch, module

_VENV = CHECKOUT / ".venv-bench"
_PINS = CHECKOUT / "benchmarks" / "peers.txt"


@cache
def _python() -> str:
    """The environment's Python; made if it is not there, or not from these pins."""
    installed = _VENV / "peers.txt"
    python = str(_VENV / "bin" / "python")
    if not installed.exists() or installed.read_text() != _PINS.read_text():
        shutil.rmtree(_VENV, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(_VENV)], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(_PINS)]
        subprocess.run(install, check=True)
        shutil.copy(_PINS, installed)
    return python


@cache
def _empty_store() -> bytes:
    """A store that DBOS made; the client cannot make one."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "store.db")
        argv = [_python(), "-m", "benchmarks.inside.dbos_worker", str(path), "--once"]
        subprocess.run(argv, check=True, cwd=CHECKOUT, env={"BENCHMARK_TAPE": f"{folder}/tape"}, capture_output=True)
        return path.read_bytes()


class Dbos:
    """DBOS with its defaults, or at 50 workflows a worker and ten polls a second."""

    count_done = "SELECT count(*) FROM workflow_status WHERE status = 'SUCCESS'"

    def __init__(self, *, tuned: bool = False) -> None:
        self.name = "DBOS, tuned" if tuned else "DBOS"
        self._flags = ["--tuned"] if tuned else []

    def prepare(self, home: Home) -> None:
        home.db.write_bytes(_empty_store())

    def worker(self, home: Home, name: str = "1") -> Launch:
        arguments = [str(home.db), "--executor", name, *self._flags]
        return module("benchmarks.inside.dbos_worker", *arguments, python=_python())

    def client(self, home: Home, action: str, workflow: str, count: int, in_flight: int = 1) -> Launch:
        arguments = [str(home.db), action, workflow, str(count), str(in_flight)]
        return module("benchmarks.inside.dbos_client", *arguments, python=_python())
