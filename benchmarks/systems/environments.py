"""Python environments of their own for what is compared, so that the product's stays as it is installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache

from benchmarks.bench import CHECKOUT

_PINS = CHECKOUT / "benchmarks"


def pins(name: str) -> str:
    """What is installed into the environment of this name."""
    return (_PINS / f"{name}.txt").read_text()


@cache
def environment(name: str, *, with_product: bool = False) -> str:
    """The Python of the environment for `<name>.txt`; made if it is not there, or not from these pins."""
    venv = CHECKOUT / f".venv-bench-{name}"
    installed, python = venv / "pins.txt", str(venv / "bin" / "python")
    if not installed.exists() or installed.read_text() != pins(name):
        shutil.rmtree(venv, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        product = ["--constraint", str(CHECKOUT / "constraints.txt"), "--editable", str(CHECKOUT)]
        install = [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "-r",
            str(_PINS / f"{name}.txt"),
        ]
        subprocess.run([*install, *(product if with_product else [])], check=True)
        installed.write_text(pins(name))
    return python
