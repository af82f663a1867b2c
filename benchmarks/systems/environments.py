"""Python environments of their own for what is compared, so that the product's stays as it is installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache

from benchmarks.bench import CHECKOUT

_PINS = CHECKOUT / "benchmarks"


@cache
def environment(name: str, *, with_product: bool = False) -> str:
    """The Python of the environment for `<name>.txt`; made if it is not there, or not from these pins."""
    venv, pins = CHECKOUT / f".venv-bench-{name}", _PINS / f"{name}.txt"
    installed, python = venv / pins.name, str(venv / "bin" / "python")
    if not installed.exists() or installed.read_text() != pins.read_text():
        shutil.rmtree(venv, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        product = ["--constraint", str(CHECKOUT / "constraints.txt"), "--editable", str(CHECKOUT)]
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(pins)]
        subprocess.run([*install, *(product if with_product else [])], check=True)
        shutil.copy(pins, installed)
    return python
