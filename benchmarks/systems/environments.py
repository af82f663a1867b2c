"""Python environments of their own for what is compared, so that the product's stays as it is installed."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from benchmarks.bench import CHECKOUT

_PINS = CHECKOUT / "benchmarks"


def pins(name: str) -> str:
    """What is installed into the environment of this name."""
    return (_PINS / f"{name}.txt").read_text()


@cache
def environment(name: str, *, with_product: bool = False) -> str:
    """The Python of the environment for `<name>.txt`; made if it is not there, or not from these pins."""
    venv = CHECKOUT / f".venv-bench-{name}"
    installed = venv / "pins.txt"
    with (CHECKOUT / f".venv-bench-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # measurements may be tried side by side
        if not installed.exists() or installed.read_text() != pins(name):
            _make(name, venv, with_product=with_product)
            installed.write_text(pins(name))
    return str(venv / "bin" / "python")


def _make(name: str, venv: Path, *, with_product: bool) -> None:
    shutil.rmtree(venv, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    install = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    product = ["--constraint", str(CHECKOUT / "constraints.txt"), "--editable", str(CHECKOUT)]
    pinned = ["-r", str(_PINS / f"{name}.txt")]
    subprocess.run([*install, *pinned, *(product if with_product else [])], check=True)
