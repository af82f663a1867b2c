"""The `pyrula-supervisor` command: without a command it becomes the supervisor, with one it asks or describes one.

The process that becomes the supervisor stays small, so whatever another command needs (tables, the client of the
control socket) is loaded only there.
"""

from __future__ import annotations

from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """Run the command line of this process and end the process."""
    import sys

    from pyrula_runtime.cli.endings import ended
    from pyrula_runtime.leaving import leave
    from pyrula_supervisor.cli.group import supervisor

    leave(ended(sys.argv[1:], "pyrula-supervisor", lambda: supervisor))
