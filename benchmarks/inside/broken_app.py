"""An app that cannot be imported, whoever tries."""

from __future__ import annotations

from benchmarks.tape import Pen

Pen().note("imported")
raise ImportError("this app cannot be imported")
