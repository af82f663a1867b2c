"""How a log record looks as text and as JSON, the same for workers and for the supervisor, which knows no runs."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

FIELDS = ("run_id", "workflow", "step", "attempt")
# what machines read besides: which event it is, of which slot, and what is known of it
_MORE = ("event", "slot", "op_id", "line", "for_s", "verdict", "cause", "run_ids")


class TextFormat(logging.Formatter):
    """Time, level, logger, whose; then one line of text. Further lines begin with the same words."""

    def format(self, record: logging.LogRecord) -> str:
        """All lines of the record."""
        at = datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds")
        head = f"{at} {record.levelname:<7} {record.name} {self._whose(record)}"
        return "\n".join(head + line for line in super().format(record).splitlines() or [""])

    def _whose(self, record: logging.LogRecord) -> str:
        run_id, workflow, step, attempt = (getattr(record, field, "") for field in FIELDS)
        if not run_id:
            return ""
        tries = f"#{attempt}" if step and attempt else ""
        return f"[{' '.join(filter(None, (workflow, run_id, step + tries)))}] "


class JsonFormat(logging.Formatter):
    """One JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        told = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        told |= {field: value for field in FIELDS if (value := getattr(record, field, ""))}
        told |= {field: value for field in _MORE if (value := getattr(record, field, "")) != ""}
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps(told, default=str)
