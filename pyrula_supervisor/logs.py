"""The supervisor's log: its own lines, pushed on with every pass, so that it needs no thread and waits for nobody."""

from __future__ import annotations

import logging

from pyrula_runtime.log_lines import JsonFormat, TextFormat
from pyrula_runtime.log_stream import PatientStream


def configure(fmt: str, level: str, fd: int = 2) -> PatientStream:
    """Send all log records of this process to a descriptor, without ever waiting for it."""
    stream = PatientStream(fd)
    target = logging.StreamHandler(stream)
    target.setFormatter(JsonFormat() if fmt == "json" else TextFormat())
    logging.basicConfig(handlers=[target], level=level.upper(), force=True)
    return stream
