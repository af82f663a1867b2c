"""Log lines of user code, each with the run and step it belongs to.

`RunFields` puts the fields on every record, so that any formatter can print them; `configure_logging` prints them: one
line for each line of a record, each with run and step, or one JSON object for each record. Workers do the same without
ever waiting for a reader (`log_without_waiting`). `BodyLog` says nothing while a body goes over what it did before,
because that was said then.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import IO, Literal

from pyrula_runtime.engine.current import current
from pyrula_runtime.log_lines import FIELDS, JsonFormat, TextFormat
from pyrula_runtime.log_stream import PatientLog


class RunFields(logging.Filter):
    """Puts run_id, workflow, step and attempt on each record; empty (attempt: 0) where there is none."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record through, with its fields; those it has already stay."""
        whose = current.get()
        for field in FIELDS:
            if not hasattr(record, field):
                nothing = 0 if field == "attempt" else ""
                setattr(record, field, nothing if whose is None else getattr(whose, field))
        return True


class BodyLog(logging.LoggerAdapter[logging.Logger]):
    """A workflow body's logger: silent during replay."""

    def __init__(self, workflow: str, is_replaying: Callable[[], bool]) -> None:
        super().__init__(logging.getLogger(f"pyrula.workflow.{workflow}"))
        self._is_replaying = is_replaying

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - the name is logging's
        """Whether a record of this level would go anywhere."""
        return not self._is_replaying() and super().isEnabledFor(level)


def configure_logging(
    fmt: Literal["text", "json"] = "text", level: int | str = logging.INFO, stream: IO[str] | None = None
) -> None:
    """Send all log records to `stream` (standard error), in place of what was configured before."""
    _configure(logging.StreamHandler(stream or sys.stderr), fmt, level)


def log_without_waiting(fmt: Literal["text", "json"] = "text", level: int | str = logging.INFO) -> None:
    """Send all log records to descriptor 2, whether or not somebody reads there; for a process that is all ours.

    Not for one that forks: a thread of it may push on what nobody has read yet.
    """
    _configure(PatientLog(), fmt, level)


def _configure(handler: logging.Handler, fmt: Literal["text", "json"], level: int | str) -> None:
    handler.addFilter(RunFields())
    handler.setFormatter(JsonFormat() if fmt == "json" else TextFormat())
    logging.basicConfig(handlers=[handler], level=level, force=True)
