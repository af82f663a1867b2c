"""The printed unit under a systemd that has really booted: what it makes of what the supervisor says, does and suffers.

Every unit is the hardened one, as printed; a test changes at most how long it waits or whether it starts again. Where
no systemd can be booted the fake manager (`test_notify`) and the text of the unit (`test_unit`) have to do.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.supervisor.household import gone
from tests.supervisor.lines import ROOT
from tests.supervisor.systemd.machine import Machine, Unbootable, Unit, machine, until

pytestmark = pytest.mark.xdist_group("systemd")

APP = '''
import ctypes, logging, os, time
from pathlib import Path
from pyrula.workflows import step, workflow

log = logging.getLogger("app")

@step
def in_thread(code):
    exec(code, globals())
    return os.getpid()

@step
async def on_lane(code):
    exec(code, globals())
    return os.getpid()

@workflow(name="NAME")
async def thread(ctx, code: str) -> int:
    return await ctx.step(in_thread, code)

@workflow(name="NAME-lane")
async def lane(ctx, code: str) -> int:
    return await ctx.step(on_lane, code)

def hold_gil(seconds):
    """Sleep in C without giving the GIL up."""
    libc, wait = ctypes.CDLL(None), ctypes.PyDLL(None).read
    clock = libc.timerfd_create(time.CLOCK_MONOTONIC, 0)
    libc.timerfd_settime(clock, 0, (ctypes.c_long * 4)(0, 0, *map(int, divmod(seconds * 1e9, 1e9))), None)
    wait(clock, ctypes.create_string_buffer(8), 8)  # a signal does not end it, as it would end a sleep
    os.close(clock)

def once(name):
    """Whether this is the first time."""
    try:
        os.close(os.open(f"{os.environ['STATE_DIRECTORY']}/{name}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True
'''
# An app that says READY in the place of its supervisor, and is imported when somebody lets it.
FORWARD_APP = """
import os, socket
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"READY=1", "/run/systemd/notify")
os.read(os.open("gate", os.O_RDONLY), 1)
"""
ASK = (sys.executable, "-P", "-m", "pyrula_supervisor")
PYRULA = (sys.executable, "-P", "-m", "pyrula_runtime.cli")
STORE = {"XDG_STATE_HOME": "/var/lib"}


@pytest.fixture(scope="module")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    try:
        with machine(tmp_path_factory.mktemp("machine")) as made:
            yield made
    except Unbootable as why:
        pytest.skip(str(why))


class Supervised(Unit):
    """A unit whose workflows execute what they are given; its name is that of its workflow."""

    def __init__(self, machine: Machine, name: str, before: str = "") -> None:
        super().__init__(machine, name, before + APP.replace("NAME", name))

    def start(self) -> None:
        """Start it, for as long as that takes."""
        started = self.ask("start")
        assert started.returncode == 0, started.stderr + self.journal()

    def submit(self, code: str, *, kind: str = "") -> str:
        """Have a run execute code, as root would: its id."""
        given = json.dumps({"code": code})
        return self.machine.answer(*PYRULA, "submit", self.name + kind, given, environ=STORE).strip()

    def result(self, run_id: str) -> int:
        """Wait for a run's result."""
        return int(until(lambda: self._completed(run_id), self.journal))

    def _completed(self, run_id: str) -> str | None:
        shown = json.loads(self.machine.answer(*PYRULA, "runs", "show", run_id, "--json", environ=STORE))
        return str(shown["result"]) if shown["status"] == "completed" else None

    def command(self, *args: str) -> str:
        """What a command to the supervisor prints, given by root."""
        return self.machine.answer(*ASK, *args, "--name", self.name)

    def document(self) -> Any:
        """The status document; it tells by its exit code as well how things are."""
        return json.loads(self.machine.run(*ASK, "status", "--json", "--name", self.name).stdout)

    def kill(self, number: signal.Signals) -> None:
        """A signal to the supervisor alone."""
        killed = self.ask("kill", "--kill-who=main", f"--signal={number.name}")
        assert killed.returncode == 0, killed.stderr


def test_it_is_active_when_enough_workers_are_ready_and_only_the_supervisor_is_believed(booted: Machine) -> None:
    unit = Supervised(booted, "ready", before=FORWARD_APP)
    gate = unit.folder / "gate"
    os.mkfifo(gate)
    unit.install("--procs", "2", "--min-ready", "2", "--start-method", "spawn")
    with gate.open("r+b", buffering=0) as hold:
        unit.ask("start", "--no-block")
        unit.said(r"Got notification message from PID \d+, but reception only permitted for main PID")
        unit.shows(ActiveState="activating", StatusText="starting: 0/2 ready")
        hold.write(b"1")
        unit.shows(ActiveState="activating", StatusText="starting: 1/2 ready")
        hold.write(b"2")
        unit.shows(ActiveState="active", StatusText="2/2 ready, 0 turns running")
    assert unit.ask("stop").returncode == 0


def test_a_drain_outlasts_its_limit_and_a_second_signal_ends_it_both_with_success(booted: Machine) -> None:
    unit = Supervised(booted, "drain")
    unit.install("--procs", "2", TimeoutStopSec="2")
    unit.start()
    run_id = unit.submit("log.info('first begins'); time.sleep(4)")
    unit.shows(StatusText="2/2 ready, 1 turn running")
    assert unit.ask("stop").returncode == 0
    left_us, gone_us = (int(unit.show(f"{name}TimestampMonotonic")) for name in ("ActiveExit", "InactiveEnter"))
    assert gone_us - left_us > 2_000_000
    assert (unit.show("Result"), unit.show("ExecMainStatus")) == ("success", "0")
    assert unit.result(run_id)

    unit.start()
    unit.submit("log.info('second begins'); time.sleep(100)")
    unit.said("second begins")
    unit.ask("stop", "--no-block")
    unit.shows(SubState="stop-sigterm", StatusText="draining: 1 process left, 1 turn running")
    unit.kill(signal.SIGTERM)
    unit.shows(ActiveState="inactive", Result="success", ExecMainStatus="143")
    assert unit.processes() == set()


def test_a_supervisor_whose_pass_hangs_is_ended_by_the_watchdog_and_nothing_is_left(booted: Machine) -> None:
    unit = Supervised(booted, "hang")
    hanging = f"{sys.executable} -P {ROOT}/tests/supervisor/hanging.py --name hang --workflow app --health-port 0"
    unit.install(WatchdogSec="3", Restart="no", ExecStart=f"\nExecStart={hanging}")
    unit.start()
    pinged = unit.show("WatchdogTimestampMonotonic")
    until(lambda: unit.show("WatchdogTimestampMonotonic") != pinged, unit.journal)
    everybody = unit.processes()
    (unit.folder / "hang").touch()
    unit.shows(ActiveState="failed", Result="watchdog")
    assert all(gone(pid) for pid in everybody)
    assert unit.processes() == set()


def test_a_killed_supervisor_leaves_no_process_and_the_next_one_goes_on_with_its_runs(booted: Machine) -> None:
    """The runs are found by the black boxes, which outlive a restart, and not by locks that lapse after 30 s."""
    unit, other = Supervised(booted, "killed"), Supervised(booted, "other")
    for each in (unit, other):
        each.install("--procs", "1")
        each.start()
    run_id = unit.submit("log.info('begins'); time.sleep(100 if once('killed') else 0)")
    unit.said("begins")
    everybody = unit.processes()
    killed_s = time.monotonic()
    unit.kill(signal.SIGKILL)
    assert all(gone(pid) for pid in everybody)
    unit.said(r"begins(?s:.)*begins")
    assert time.monotonic() - killed_s < 20
    assert unit.result(run_id)
    assert unit.show("NRestarts") == "1"
    # and the other one, with whose user the store is shared, has lost nothing by the restart
    assert other.result(other.submit("pass"))
    assert (unit.ask("stop").returncode, other.ask("stop").returncode) == (0, 0)
    assert not booted.path("/run/private/pyrula-killed").exists()


def test_what_no_start_can_mend_is_not_started_again(booted: Machine) -> None:
    unit = Supervised(booted, "broken", before="import no_such_library\n")
    unit.install("--procs", "2")
    assert unit.ask("start").returncode != 0
    unit.shows(ActiveState="failed", SubState="failed", Result="exit-code", ExecMainStatus="78", NRestarts="0")
    assert "No module named 'no_such_library'" in unit.journal()


def test_a_reload_is_waited_for_and_fails_with_the_new_code_while_the_old_serves_on(booted: Machine) -> None:
    unit = Supervised(booted, "reload")
    unit.install("--procs", "2", "--reload-settle", "1")
    unit.start()
    assert unit.ask("reload").returncode == 0
    assert (unit.document()["supervisor"]["generation"], unit.show("ActiveState")) == (2, "active")
    unit.kill(signal.SIGHUP)
    unit.shows(ActiveState="reloading", StatusText="reloading: 2/2 ready, 0 turns running")
    unit.shows(ActiveState="active", StatusText="2/2 ready, 0 turns running")
    serving = unit.document()
    unit.write("import no_such_library\n")
    assert unit.ask("reload").returncode != 0
    unit.said("No module named 'no_such_library'")
    assert (unit.show("ActiveState"), unit.show("SubState")) == ("active", "running")
    still = unit.document()
    assert still["supervisor"]["generation"] == serving["supervisor"]["generation"] == 3
    assert [each["pid"] for each in still["children"]] == [each["pid"] for each in serving["children"]]
    assert unit.result(unit.submit("pass"))
    assert unit.ask("stop").returncode == 0


def test_all_of_it_works_under_the_hardening(booted: Machine) -> None:
    """Crash of a worker and of the template, a stuck GIL, and the end of the supervisor meanwhile."""
    unit = Supervised(booted, "hard")
    unit.install("--procs", "2", "--start-method", "template")
    unit.start()
    confined = Path(f"/proc/{min(unit.processes())}/status").read_text()
    found = dict(re.findall(r"^(NoNewPrivs|Seccomp|CapEff|CapBnd|Uid):\s+(\w+)", confined, re.MULTILINE))
    assert found.pop("Uid") != "0"
    assert found == {"NoNewPrivs": "1", "Seccomp": "2", "CapEff": "0" * 16, "CapBnd": "0" * 16}

    assert unit.result(unit.submit("if once('crash'): os.kill(os.getpid(), 11)", kind="-lane"))
    unit.said(r"worker \d \(pid \d+\) was killed by SIGSEGV")

    template = unit.said(r"template \(pid (\d+)\) is ready")[1]
    booted.answer("kill", "-KILL", template)
    unit.said(r"template \(pid \d+\) was killed by SIGKILL")
    worker = next(each["pid"] for each in unit.document()["children"] if each["role"] == "worker")
    booted.answer("kill", "-KILL", str(worker))
    unit.said(
        rf"\(pid {worker}\) was killed by SIGKILL(?s:.)*template \(pid \d+\) is ready(?s:.)*worker \d .* is ready"
    )

    run_id = unit.submit("if once('gil'): log.info('held'); hold_gil(100)", kind="-lane")
    unit.said("held")
    stuck = until(lambda: [each["slot"] for each in unit.document()["children"] if each["stale"]], unit.journal)
    assert "hold_gil" in unit.command("dump", str(stuck[0]))
    name = next(each["incarnation"] for each in unit.document()["children"] if each["stale"])
    written = booted.answer("sh", "-c", f"cat $(find /run -name {name}.stack)")
    assert written.startswith("readable")
    assert "most recent call first" not in written, "it was read from its memory, nobody had to be signalled"
    everybody = unit.processes()
    unit.kill(signal.SIGKILL)
    assert all(gone(pid) for pid in everybody)
    assert unit.result(run_id)
    assert unit.ask("stop").returncode == 0
