"""`pyrula-supervisor` as a person meets it: it runs, is asked, reloads, gets stuck, is killed; and wrong calls."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cli.sites import PATIENCE_S
from tests.supervisor.sites import SUPERVISOR, SupervisedSite, fetched, many_descriptors

SERVE = ("--workflow", "app", "--health-port", "0")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[SupervisedSite]:
    made = SupervisedSite(tmp_path)
    yield made
    made.close()


def refusal(site: SupervisedSite, code: int, *args: str) -> str:
    """The one sentence of a call that must end with `code`."""
    done = site.ask(*args)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("pyrula-supervisor: ")
    return line


# wrong calls


@pytest.mark.parametrize(
    "command",
    [
        "status",
        "status --json",
        "status --watch",
        "stop",
        "stop --wait",
        "reload --wait",
        "scale 2",
        "restart 0",
        "dump 0",
    ],
)
def test_without_a_supervisor_every_command_says_so(site: SupervisedSite, command: str) -> None:
    line = refusal(site, 3, *command.split(), "--name", "nobody")
    assert "no supervisor named 'nobody' runs here" in line


@pytest.mark.parametrize(
    ("code", "args", "words"),
    [
        (78, ("--procs", "0", *SERVE), "--procs"),
        (78, ("--procs", "500", *SERVE), "from 1 to 128"),
        (78, ("--procs", "two", *SERVE), "--procs"),
        (78, ("--procs", "2", "--min-ready", "3", *SERVE), "--min-ready"),
        (78, ("--name", "../x", *SERVE), "--name"),
        (78, ("--lock-ttl", "nan", *SERVE), "--lock-ttl"),
        (78, ("--store", "", *SERVE), "--store"),
        (78, ("--isolation", "run", *SERVE), "must be one of lane, turn"),
        (78, ("status", "--name", "a/b"), "--name"),
        (78, ("unit", "--procs", "0", "--workflow", "app"), "--procs"),
        (2, ("--procs", "2"), "say what to serve"),
        (2, ("unit",), "say what to serve"),
        (2, ("--agent", "app:support"), "serves no agents yet"),
        (2, ("stats",), "did you mean 'status'"),
        (2, ("--procs", "4", "status"), "--procs is for starting a supervisor"),
        (2, ("--proks", "4"), "--proks"),
        (2, ("scale", "0"), "0"),
        (2, ("scale",), "PROCS"),
        (2, ("dump", "zero"), "zero"),
        (2, ("restart", "-1"), "-1"),
    ],
)
def test_a_wrong_call_is_one_sentence(site: SupervisedSite, code: int, args: tuple[str, ...], words: str) -> None:
    assert words in refusal(site, code, *args)


def test_all_faults_are_told_at_once(site: SupervisedSite) -> None:
    done = site.ask("--procs", "0", "--lock-ttl", "-1", "--worker-id", " ", *SERVE)
    assert done.returncode == 78
    assert len(done.stderr.splitlines()) == 3


def test_a_port_in_use_is_one_sentence_and_starts_nothing(site: SupervisedSite) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refusal(site, 78, "--workflow", "app", "--health-port", str(port))
    assert f"health port {port} on 127.0.0.1" in line
    assert not (site.folder / "store").exists()


@pytest.mark.parametrize("start_method", ["spawn", "template"])
@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("app:oder", "module 'app' has no 'oder'; did you mean order?"),
        ("nowhere", "there is no module 'nowhere'"),
        ("bad", "cannot import 'bad': RuntimeError: no database"),
    ],
)
def test_an_app_that_cannot_be_served_ends_the_start(
    site: SupervisedSite, start_method: str, target: str, words: str
) -> None:
    (site.folder / "bad.py").write_text("raise RuntimeError('no database')\n")
    done = site.ask("--workflow", target, "--health-port", "0", "--start-method", start_method)
    assert done.returncode == 78
    assert words in done.stderr
    assert done.stderr.count("Traceback (most recent call last)") == (target == "bad")


def test_a_store_that_is_none_ends_the_start(site: SupervisedSite) -> None:
    done = site.ask(*SERVE, "--store", "postgres://host/db")
    assert done.returncode == 78
    assert "scheme 'postgres' is unknown" in done.stderr


# a life


def test_a_life_from_the_first_look_to_the_end(site: SupervisedSite) -> None:
    supervisor = site.supervise("--procs", "2", health=True)
    url = supervisor.url()
    supervisor.said_ready(2)
    until_well(site)
    assert fetched(f"{url}/livez") == (200, '{"status":"ok","reasons":[]}\n')
    assert fetched(f"{url}/readyz")[0] == 200
    assert fetched(f"{url}/nowhere")[0] == 404
    shown = site.ask("status")
    assert shown.returncode == 0, shown.stdout
    assert "2/2 ready" in shown.stdout
    document = json.loads(fetched(f"{url}/status")[1])
    assert document["supervisor"]["health_url"] == url
    for child in document["children"]:
        assert str(child["pid"]) in shown.stdout
    assert site.status()["supervisor"]["pid"] == supervisor.process.pid == document["supervisor"]["pid"]
    assert "pyrula_procs 2" in fetched(f"{url}/metrics")[1]
    assert "run_forever" in site.ask("dump", "0").stdout
    stopped = site.ask("stop", "--wait")
    assert (stopped.returncode, stopped.stdout) == (0, "the supervisor has ended\n")
    assert supervisor.code() == 0
    assert "no supervisor" in refusal(site, 3, "status")
    assert not list(site.folder.rglob("*.sock"))


def until_well(site: SupervisedSite) -> None:
    """The clerk tells of the store a moment after it is ready: watch until then."""
    with watching(site) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if not json.loads(line)["supervisor"]["degraded"]:
                return
    raise AssertionError("it did not get well")


@contextlib.contextmanager
def watching(site: SupervisedSite) -> Iterator[subprocess.Popen[str]]:
    """`status --watch --json`, a document a line."""
    command = [*SUPERVISOR, "status", "--watch", "--json"]
    with subprocess.Popen(
        command, cwd=site.folder, env=site.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def test_a_watch_goes_on_until_ctrl_c(site: SupervisedSite) -> None:
    site.supervise("--procs", "1").said_ready(1)
    until_well(site)
    with watching(site) as process:
        assert process.stdout is not None
        first, second = (json.loads(process.stdout.readline()) for _ in range(2))
        assert first["supervisor"]["pid"] == second["supervisor"]["pid"]
        assert first["supervisor"]["uptime_s"] < second["supervisor"]["uptime_s"]
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0


def test_scale_restart_and_reload(site: SupervisedSite) -> None:
    supervisor = site.supervise("--procs", "1", "--reload-settle", "0.2")
    supervisor.said_ready(1)
    scaled = site.ask("scale", "2")
    assert (scaled.returncode, scaled.stdout) == (0, "scaled from 1 to 2 workers\n")
    supervisor.said_ready(1)
    pids = {child["slot"]: child["pid"] for child in site.status()["children"]}
    restarted = site.ask("restart", "1")
    assert restarted.returncode == 0, restarted.stderr
    assert site.status()["children"][1]["pid"] != pids[1]
    refused = site.ask("restart", "7")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "no slot 7" in refused.stderr
    reloaded = site.ask("reload", "--wait")
    assert (reloaded.returncode, reloaded.stdout) == (0, "reloaded: generation 2 serves in all slots\n"), (
        reloaded.stderr
    )
    assert site.status()["supervisor"]["generation"] == 2


def test_a_reload_to_broken_code_tells_why_and_changes_nothing(site: SupervisedSite) -> None:
    site.supervise("--procs", "2").said_ready(2)
    before = {child["pid"] for child in site.status()["children"]}
    (site.folder / "app.py").write_text("import no_such_library\n")
    failed = site.ask("reload", "--wait")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "Traceback (most recent call last)" in failed.stderr
    assert "No module named 'no_such_library'" in failed.stderr
    document = site.status()
    assert document["supervisor"]["generation"] == 1
    assert {child["pid"] for child in document["children"]} == before


def test_a_second_supervisor_of_the_name_is_refused_and_others_are_not(site: SupervisedSite) -> None:
    first = site.supervise("--procs", "1")
    first.said_ready(1)
    line = refusal(site, 78, *SERVE)
    assert f"a supervisor named 'default' runs already: process {first.process.pid}" in line
    other = site.supervise("--procs", "1", "--name", "other")
    other.said_ready(1)
    assert site.status("--name", "other")["supervisor"]["pid"] == other.process.pid
    by_place = json.loads(site.ask("--name", "other", "status", "--json").stdout)
    assert by_place["supervisor"]["name"] == "other"
    assert site.status()["supervisor"]["pid"] == first.process.pid
    assert (first.stop(), other.stop()) == (0, 0)


def test_a_killed_supervisor_leaves_nothing_in_the_way(site: SupervisedSite) -> None:
    killed = site.supervise("--procs", "1")
    killed.said_ready(1)
    killed.send(signal.SIGKILL)
    killed.code()
    assert "no supervisor named" in refusal(site, 3, "status")
    again = site.supervise("--procs", "1")
    again.said_ready(1)
    assert site.status()["supervisor"]["pid"] == again.process.pid
    assert again.stop() == 0


def test_signals_that_a_starter_had_blocked_are_heard(site: SupervisedSite) -> None:
    blocked = f"signal.pthread_sigmask(signal.SIG_BLOCK, {{{signal.SIGTERM:d}, {signal.SIGCHLD:d}, {signal.SIGHUP:d}}})"
    program = [sys.executable, "-c", f"import os, signal, sys; {blocked}; os.execv(sys.argv[1], sys.argv[1:])"]
    supervisor = site.supervise("--procs", "1", program=[*program, *SUPERVISOR])
    supervisor.said_ready(1)
    supervisor.send(signal.SIGHUP)
    supervisor.said("reloading: generation 2")
    assert supervisor.stop() == 0


def test_a_socket_that_cannot_be_removed_does_not_spoil_the_end(site: SupervisedSite) -> None:
    supervisor = site.supervise("--procs", "1")
    supervisor.said_ready(1)
    (path,) = site.folder.rglob("default.sock")
    path.unlink()
    path.mkdir()
    assert supervisor.stop() == 0


def test_titles_say_who_is_who(site: SupervisedSite) -> None:
    supervisor = site.supervise("--procs", "2")
    supervisor.said_ready(2)
    site.ask("dump", "1")  # answered by a pass after the one that has shown the title
    assert psutil.Process(supervisor.process.pid).cmdline()[0].strip() == "pyrula-supervisor default 2/2 ready"


def test_it_answers_while_all_children_are_stuck(site: SupervisedSite) -> None:
    """Two hold the GIL for ever and one is stopped: everything is answered, and the silent are marked."""
    supervisor = site.supervise("--procs", "3", "--max-concurrent-runs", "1", target="stuck_app", health=True)
    url = supervisor.url()
    supervisor.said_ready(3)
    pids = {child["pid"]: child["slot"] for child in site.status()["children"] if child["role"] == "worker"}
    site.answer("submit", "holds_gil")
    site.answer("submit", "holds_gil")
    with watching(site) as process:
        assert process.stdout is not None
        silent = wait_for_silent(process, 2)
        well = next(pid for pid, slot in pids.items() if slot not in silent)
        os.kill(well, signal.SIGSTOP)
        assert wait_for_silent(process, 3) == set(pids.values())
    assert fetched(f"{url}/livez")[0] == 200
    assert fetched(f"{url}/readyz")[0] == 200
    found = {family.name for family in text_string_to_metric_families(fetched(f"{url}/metrics")[1])}
    assert {"pyrula_children", "pyrula_child_report_age_seconds"} <= found
    shown = status_that_says(site, "has been blocked for", "is stopped")
    assert shown.returncode == 1
    stack = site.ask("dump", str(next(iter(silent))))
    assert "holds_gil" in stack.stdout, stack.stderr
    supervisor.send(signal.SIGTERM)
    supervisor.said("stopping")
    assert fetched(f"{url}/readyz")[0] == 503
    assert site.status()["supervisor"]["state"] == "draining"
    supervisor.send(signal.SIGTERM)
    assert supervisor.code() == 143


def status_that_says(site: SupervisedSite, *texts: str) -> subprocess.CompletedProcess[str]:
    """The first status with all of these: on a starved host a block counts later than the silence that it causes."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        shown = site.ask("status")
        if all(text in shown.stdout for text in texts):
            return shown
        assert time.monotonic() < deadline, shown.stdout


def wait_for_silent(process: subprocess.Popen[str], count: int) -> set[int]:
    """The slots of the workers that are marked as silent, once there are so many."""
    assert process.stdout is not None
    for line in process.stdout:
        silent = {child["slot"] for child in json.loads(line)["children"] if child["stale"]}
        if len(silent) >= count:
            return silent
    raise AssertionError("the watch ended")


def test_half_a_request_and_a_crowd_are_in_nobodys_way(site: SupervisedSite) -> None:
    supervisor = site.supervise("--procs", "1", health=True)
    url = supervisor.url()
    found = re.fullmatch(r"http://(.+):(\d+)", url)
    assert found is not None
    supervisor.said_ready(1)
    with many_descriptors(), contextlib.ExitStack() as stack:
        for number in range(1000):
            client = stack.enter_context(socket.create_connection((found[1], int(found[2]))))
            if number % 2:
                client.sendall(b"GET /livez HTTP/1.1\r\nHost")
        assert fetched(f"{url}/livez")[0] == 200
        assert site.status()["supervisor"]["state"] == "running"
    assert supervisor.stop() == 0
