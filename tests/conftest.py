"""The ground that all tests stand on: the dispositions of signals, whoever started the test run, and their order.

A shell that runs something in the background has it ignore SIGINT, `nohup` has it ignore SIGHUP, and what is ignored
stays ignored through every exec: Ctrl-C in a test would then end nobody. And what was tried on is told at the end.
"""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
# nobody is timed: who finds the processors taken is slow, and that is no fault
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.hookimpl(trylast=True)  # when those that are left out have gone
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Spread each module over the run, if there are several processes: tests that wait go beside others that compute.

    The first test of a module comes at the start, the second of two in the middle, the last of twenty when a twentieth
    is left. Long tests are mostly in modules of few, so most have ended before the rest; one that is the last of many
    is waited for. A group comes at the start, and stays as it is.

    What a module shares is made in each process that gets a test of it: a server is there in some 0.05 s, so its tests
    gain more by going beside each other. Those that share what costs more, a cluster or a machine, are a group.
    """
    if not hasattr(config, "workerinput"):
        return
    sizes = Counter(item.path for item in items)
    seen: Counter[Path] = Counter()
    shares = {}
    for item in items:
        shares[item] = 0.0 if item.get_closest_marker("xdist_group") else seen[item.path] / sizes[item.path]
        seen[item.path] += 1
    items.sort(key=shares.__getitem__)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which kinds of server there were for the stores' tests: `-q` leaves out the report's head."""
    reports = [report for outcome in ("passed", "failed") for report in terminalreporter.getreports(outcome)]
    if any(report.nodeid.startswith("tests/store/") for report in reports):
        from tests.store.valkey.servers import told_kinds  # not for those who try other things

        terminalreporter.write_line(told_kinds())
