"""The `pyrula` command, cut by subject; each command is loaded only when it is called.

How soon a worker runs its first run counts from the moment the command is typed, so nothing here imports what another
command needs: the table of commands holds names, and a command's own heavy imports stand inside its functions. What
people read goes to stdout, what went wrong to stderr in one sentence per fault; every way out is in `endings`.
"""

from __future__ import annotations

from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """Run the command line of this process and end the process."""
    import sys

    from pyrula_runtime.cli.endings import ended
    from pyrula_runtime.leaving import leave

    leave(ended(sys.argv[1:]))
