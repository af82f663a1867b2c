"""What the service manager hears: a fake one listens on the socket, and the kernel tells it who speaks."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from pyrula_supervisor.actions import Notify
from pyrula_supervisor.notify import ServiceSocket
from tests.supervisor.ears import Ear, Heard
from tests.supervisor.household import stat_of
from tests.supervisor.lines import ROOT
from tests.supervisor.sites import SupervisedSite

HANGING = [sys.executable, "-P", str(Path(__file__).with_name("hanging.py"))]
GATED_APP = '''
"""An app that is imported when somebody lets it."""
import os
os.read(os.open("gate", os.O_RDONLY), 1)

from pyrula.workflows import workflow

@workflow
async def nothing(ctx) -> None: ...
'''


@pytest.fixture
def ear(tmp_path: Path) -> Iterator[Ear]:
    made = Ear(str(tmp_path / "n"))
    yield made
    made.close()


@pytest.fixture
def site(tmp_path: Path, ear: Ear) -> Iterator[SupervisedSite]:
    made = SupervisedSite(tmp_path)
    made.environ["NOTIFY_SOCKET"] = ear.address
    yield made
    made.close()


def said(heard: list[Heard]) -> list[dict[str, str]]:
    """What was said, but for status lines."""
    return [each.fields for each in heard if "STATUS" not in each.fields]


# the words


@pytest.mark.parametrize("address", ["@pyrula-test-{pid}", "{folder}/n"])
def test_what_the_reducer_wants_told_is_said_in_the_words_of_the_protocol(tmp_path: Path, address: str) -> None:
    ear = Ear(address.format(pid=os.getpid(), folder=tmp_path))
    service = ServiceSocket.from_env({"NOTIFY_SOCKET": ear.address}, os.getpid())
    before_us = time.monotonic_ns() // 1000
    for action in (
        Notify(state="READY=1"),
        Notify(state="STATUS=2/2 ready"),
        Notify(state="RELOADING=1"),
        Notify(state="STOPPING=1", extend_ms=10_000),
    ):
        service.tell(action)
    assert ear.next().fields == {"READY": "1"}
    assert ear.next().fields == {"STATUS": "2/2 ready"}
    reloading = ear.next().fields
    assert reloading.keys() == {"RELOADING", "MONOTONIC_USEC"}
    assert before_us <= int(reloading["MONOTONIC_USEC"]) <= time.monotonic_ns() // 1000
    assert ear.next().fields == {"STOPPING": "1", "EXTEND_TIMEOUT_USEC": "10000000"}
    service.passed(0)
    service.close()
    assert ear.silence() == []
    ear.close()


def test_without_a_manager_nothing_is_said() -> None:
    service = ServiceSocket.from_env({"WATCHDOG_USEC": "1000000"}, os.getpid())
    service.tell(Notify(state="READY=1"))
    service.passed(0)
    service.close()


@pytest.mark.parametrize("address", ["vsock:2:1234", "notify"])
def test_what_is_no_unix_socket_is_named_once(address: str, caplog: pytest.LogCaptureFixture) -> None:
    service = ServiceSocket.from_env({"NOTIFY_SOCKET": address}, os.getpid())
    service.tell(Notify(state="READY=1"))
    service.passed(0)
    assert [record.getMessage() for record in caplog.records] == [
        f"NOTIFY_SOCKET is {address!r}, no Unix socket: the service manager is told nothing"
    ]


# a manager that does not listen


def test_a_manager_with_a_full_queue_is_not_waited_for_and_hears_the_rest_later(ear: Ear) -> None:
    service = ServiceSocket(ear.address)
    said_before = 0
    while not service._waiting:
        service.tell(Notify(state="READY=1"))
        said_before += 1
    for state in ("STATUS=1/2 ready", "RELOADING=1", "READY=1", "STATUS=2/2 ready"):
        service.tell(Notify(state=state))
    heard = [ear.next() for _ in range(said_before - 1)]
    service.passed(0)
    assert all(each.fields == {"READY": "1"} for each in heard)
    assert [next(iter(each.fields.items())) for each in ear.silence()] == [
        ("READY", "1"),
        ("RELOADING", "1"),
        ("READY", "1"),
        ("STATUS", "2/2 ready"),
    ]
    service.close()


def test_a_manager_that_is_away_is_named_once_and_told_when_it_comes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    address = str(tmp_path / "n")
    service = ServiceSocket(address, watchdog_ms=1000)
    service.tell(Notify(state="READY=1"))
    for second in range(100):
        service.tell(Notify(state="STOPPING=1", extend_ms=10_000))
        service.passed(second * 1000)
    assert [record.getMessage() for record in caplog.records] == [
        "the service manager does not listen on NOTIFY_SOCKET: No such file or directory"
    ]
    ear = Ear(address)
    service.passed(100_000)
    assert [list(each.fields) for each in ear.silence()] == [
        ["READY"],
        ["STOPPING", "EXTEND_TIMEOUT_USEC"],
        ["WATCHDOG"],
    ]
    service.close()
    ear.close()


# the watchdog


@pytest.mark.parametrize(
    ("environ", "pings"),
    [
        ({"WATCHDOG_USEC": "4000000"}, 1),
        ({"WATCHDOG_USEC": "4000000", "WATCHDOG_PID": "4711"}, 1),
        ({"WATCHDOG_USEC": "4000000", "WATCHDOG_PID": "4712"}, 0),
        ({"WATCHDOG_USEC": "4000000", "WATCHDOG_PID": ""}, 0),
        ({"WATCHDOG_USEC": "0"}, 0),
        ({"WATCHDOG_USEC": "soon"}, 0),
        ({}, 0),
    ],
)
def test_only_a_watchdog_for_this_process_is_pinged(ear: Ear, environ: dict[str, str], pings: int) -> None:
    service = ServiceSocket.from_env({"NOTIFY_SOCKET": ear.address, **environ}, 4711)
    service.passed(0)
    service.close()
    assert said(ear.silence()) == [{"WATCHDOG": "1"}] * pings


@pytest.mark.parametrize("pass_ms", [10, 250, "longest"])
def test_pings_come_within_half_of_the_limit_and_not_with_every_pass(ear: Ear, pass_ms: int | str) -> None:
    limit_ms = 30_000
    service = ServiceSocket(ear.address, limit_ms)
    every_ms = service.longest_ms if pass_ms == "longest" else int(pass_ms)
    pinged_ms = []
    for now_ms in range(0, 4 * limit_ms, every_ms):
        service.passed(now_ms)
        pinged_ms += [now_ms] * len(ear.silence())
    gaps = [after - before for before, after in itertools.pairwise(pinged_ms)]
    assert max(gaps) < limit_ms / 2
    assert min(gaps) >= limit_ms / 4
    service.close()


def test_a_running_supervisor_pings_from_its_passes_and_no_child_does(site: SupervisedSite, ear: Ear) -> None:
    """Stopped, it is silent; so it is as far as the watchdog is concerned when its watchdog is another process's."""
    site.environ["WATCHDOG_USEC"] = "3000000"
    supervisor = site.supervise("--procs", "2")
    heard = ear.until("READY", "1")
    pid = supervisor.process.pid
    while sum("WATCHDOG" in each.fields for each in heard) < 5:
        heard.append(ear.next())
    pings = [each.at_s for each in heard if "WATCHDOG" in each.fields]
    assert {each.pid for each in heard} == {pid}
    assert all(after - before < 1.5 for before, after in itertools.pairwise(pings))
    for child in psutil.Process(pid).children(recursive=True):
        inherited = Path(f"/proc/{child.pid}/environ").read_bytes()
        assert b"NOTIFY_SOCKET" not in inherited
        assert b"WATCHDOG" not in inherited
    supervisor.send(signal.SIGSTOP)
    while stat_of(pid) != "T":
        pass
    ear.silence()
    assert ear.silence(1.5) == []
    supervisor.send(signal.SIGCONT)
    assert ear.until("WATCHDOG", "1")[-1].pid == pid
    assert supervisor.stop() == 0


def test_a_supervisor_whose_pass_hangs_pings_no_more(site: SupervisedSite, ear: Ear) -> None:
    site.environ |= {"WATCHDOG_USEC": "800000", "PYTHONPATH": str(ROOT)}
    site.supervise("--procs", "1", program=HANGING)
    ear.until("READY", "1")
    ear.until("WATCHDOG", "1")
    (site.folder / "hang").touch()
    at_hand = itertools.islice(iter(lambda: ear.next(0.8), None), 20)
    with pytest.raises(TimeoutError):
        list(at_hand)


# a life


def test_ready_is_said_once_and_only_when_enough_workers_are(site: SupervisedSite, ear: Ear) -> None:
    (site.folder / "gated.py").write_text(GATED_APP)
    gate = site.gate()
    with gate.open("r+b", buffering=0) as hold:
        supervisor = site.supervise("--procs", "3", "--min-ready", "2", "--start-method", "spawn", target="gated")
        hold.write(b"1")
        supervisor.said_ready(1)
        heard = ear.until("STATUS", "starting: 1/3 ready")
        assert said(heard) == []
        hold.write(b"2")
        supervisor.said_ready(1)
        assert said(ear.until("READY", "1")) == [{"READY": "1"}]
        hold.write(b"3")
        supervisor.said_ready(1)
        assert said(ear.until("STATUS", "3/3 ready")) == []
        assert supervisor.stop() == 0
    assert {tuple(each) for each in said(ear.silence())} == {("STOPPING", "EXTEND_TIMEOUT_USEC")}


def test_a_reload_is_told_from_its_beginning_to_its_end_good_or_bad(site: SupervisedSite, ear: Ear) -> None:
    supervisor = site.supervise("--procs", "1", "--reload-settle", "0")
    ear.until("READY", "1")
    for word, code in (("", 0), ("import no_such_library\n", 1)):
        with (site.folder / "app.py").open("a") as app:
            app.write(word)
        now_us = time.monotonic_ns() // 1000
        assert site.ask("reload", "--wait").returncode == code
        begun, ended = said(ear.silence())
        assert begun.keys() == {"RELOADING", "MONOTONIC_USEC"}
        assert int(begun["MONOTONIC_USEC"]) >= now_us
        assert ended == {"READY": "1"}
    assert supervisor.stop() == 0


def test_while_it_drains_more_time_is_asked_for_each_second(site: SupervisedSite, ear: Ear) -> None:
    supervisor = site.supervise("--procs", "1", "--shutdown-grace", "30")
    ear.until("READY", "1")
    gate = site.gate()
    site.answer("submit", "held", f'"{gate}"')
    supervisor.said("waits at the gate")
    supervisor.send(signal.SIGTERM)
    heard = ear.until("STOPPING", "1")
    assert heard[-1].fields == {"STOPPING": "1", "EXTEND_TIMEOUT_USEC": "10000000"}
    more = [ear.until("STOPPING", "1")[-1] for _ in range(3)]
    assert all(each.fields == heard[-1].fields and each.pid == heard[-1].pid for each in more)
    gate.write_text("go on")
    assert supervisor.code() == 0
    assert site.document("runs", "list")[0]["status"] == "completed"


def test_a_start_that_fails_is_never_ready(site: SupervisedSite, ear: Ear) -> None:
    assert site.supervise(target="nowhere").code() == 78
    assert not any("READY" in each for each in said(ear.silence()))
