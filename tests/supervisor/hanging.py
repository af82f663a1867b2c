"""A `pyrula-supervisor` whose passes hang as soon as there is a file `hang` where it runs; its threads would go on."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from pyrula_supervisor import cli
from pyrula_supervisor.parent import Parent

take_news = Parent._take_news


def hang_or_take(parent: Parent, now_ms: int) -> None:
    if Path("hang").exists():
        threading.Event().wait()
    take_news(parent, now_ms)


if __name__ == "__main__":
    Parent._take_news = hang_or_take  # type: ignore[method-assign,assignment]
    sys.exit(cli.main())
