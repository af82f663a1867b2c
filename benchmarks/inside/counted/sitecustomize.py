"""Found by any interpreter with this folder on its path: the clerk, which imports no app, counts its statements."""

from __future__ import annotations

import sys

if "pyrula_runtime.clerk" in sys.orig_argv:
    from benchmarks.inside import statements
    from benchmarks.tape import Pen

    statements.note_if_asked(Pen())
