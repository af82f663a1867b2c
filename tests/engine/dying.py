"""A real process that keeps its last words in a file and then does what it is told, which mostly ends it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent, indent

ROOT = Path(__file__).parents[2]
NAME = "i"
_PROGRAM = """
import ctypes, os, re, signal, sys, threading, time
sys.path.insert(0, {root!r})
from pathlib import Path
from pyrula_runtime import leaving, stacks

directory = Path({folder!r})
directory.mkdir(exist_ok=True)
file = stacks.write_at_death(directory, {name!r})

def guilty():
{code}

guilty()  # called
"""


class Dying:
    """One such process, from a file of its own, so that its lines have a place."""

    def __init__(self, folder: Path, code: str) -> None:
        self.folder = folder / "run"
        self.program = folder / "app.py"
        self.program.write_text(
            _PROGRAM.format(
                root=str(ROOT), folder=str(self.folder), name=NAME, code=indent(dedent(code).strip(), "    ")
            )
        )
        self.process = subprocess.Popen(
            [sys.executable, str(self.program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    @property
    def lines(self) -> list[str]:
        """Those of its program."""
        return self.program.read_text().splitlines()

    def said(self) -> str:
        """Its next line."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def died(self) -> int:
        """Its status, when it has ended."""
        self.process.communicate()
        return self.process.returncode

    def end(self) -> None:
        """Kill it, if it lives."""
        self.process.kill()
        self.died()
