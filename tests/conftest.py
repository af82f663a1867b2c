"""The ground that all tests stand on: the dispositions of signals, whoever started the test run.

A shell that runs something in the background has it ignore SIGINT, `nohup` has it ignore SIGHUP, and what is ignored
stays ignored through every exec: Ctrl-C in a test would then end nobody. And what was tried on is told at the end.
"""

from __future__ import annotations

import signal

import pytest

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which kinds of server there were for the stores' tests: `-q` leaves out the report's head."""
    reports = [report for outcome in ("passed", "failed") for report in terminalreporter.getreports(outcome)]
    if any(report.nodeid.startswith("tests/store/") for report in reports):
        from tests.store.valkey.servers import told_kinds  # not for those who try other things

        terminalreporter.write_line(told_kinds())
