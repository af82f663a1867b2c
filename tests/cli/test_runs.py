"""Runs from the command line: submit, wait, list, show, why, cancel and requeue, for people and for programs."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest

from pyrula_runtime.cli.commands import pyrula as root
from tests.cli.sites import PATIENCE_S, PYRULA, Site


def test_a_run_goes_from_submit_to_result(site: Site) -> None:
    run_id = site.answer("submit", "order", '{"x": 4}')
    assert "no worker is connected" in site.answer("runs", "why", run_id)
    worker = site.serving()
    done = site.pyrula("submit", "order", '{"x": 5}', "--wait")
    assert (done.returncode, done.stdout) == (0, "20\n")
    assert done.stderr.startswith("submitted ")  # its id, for whoever does not want to wait any longer
    listed = site.document("runs", "list", "--workflow", "order")
    assert {each["status"] for each in listed} == {"completed"}
    assert [each["run_id"] for each in listed][-1] == run_id
    shown = site.document("runs", "show", run_id)
    assert (shown["status"], shown["input"], shown["result"]) == ("completed", {"x": 4}, 16)
    assert [entry["op_id"] for entry in shown["journal"]] == ["double#1", "double#2"]
    assert "it waits for nothing" in site.answer("runs", "why", run_id)
    assert worker.stop() == 0


def test_a_run_that_waits_says_for_which_signal(site: Site) -> None:
    worker = site.serving()
    run_id = site.answer("submit", "approved")
    while site.document("runs", "show", run_id)["status"] != "waiting":
        assert worker.process.poll() is None
    assert f"Run {run_id} is waiting for signal 'approve'; it holds no worker" in site.answer("runs", "why", run_id)
    assert "signal 'approve'" in site.answer("runs", "show", run_id)
    assert site.document("runs", "show", run_id)["awaits"] == "signal 'approve'"
    assert worker.stop() == 0


def test_input_comes_from_stdin_and_from_a_file(site: Site) -> None:
    (site.folder / "input.json").write_text('{"x": 7}')
    from_file = site.answer("submit", "order", "@input.json")
    from_stdin = site.pyrula("submit", "order", "-", given='{"x": 8}').stdout.strip()
    assert site.document("runs", "show", from_file)["input"] == {"x": 7}
    assert site.document("runs", "show", from_stdin)["input"] == {"x": 8}
    assert site.document("runs", "show", site.answer("submit", "order"))["input"] == {}


def test_a_run_gets_its_signals(site: Site) -> None:
    run_id = site.answer("submit", "approved")
    sent = site.answer("runs", "signal", run_id, "approve", '{"by": "Ann"}', "--message-id", "1")
    assert sent == f"{run_id}: signal 'approve' sent"
    site.answer("runs", "signal", run_id, "approve", '{"by": "Bob"}', "--message-id", "1")
    site.answer("runs", "signal", run_id, "approve")
    worker = site.serving()
    done = site.pyrula("submit", "approved", "--run-id", run_id, "--wait")
    assert done.stdout == '[{"by":"Ann"},null]\n'
    late = site.pyrula("runs", "signal", run_id, "approve")
    assert (late.returncode, "has ended: signal 'approve' was not kept" in late.stderr) == (2, True)
    assert worker.stop() == 0


def test_an_idempotency_key_submits_once(site: Site) -> None:
    first = site.answer("submit", "order", "--idempotency-key", "k-1")
    assert site.answer("submit", "order", "--idempotency-key", "k-1") == first
    other = site.pyrula("submit", "order", '{"x": 2}', "--idempotency-key", "k-1")
    assert other.returncode == 2
    assert first in other.stderr
    assert len(site.document("runs", "list")) == 1


def test_a_failed_run_tells_its_error_and_is_requeued(site: Site) -> None:
    worker = site.serving()
    done = site.pyrula("submit", "broken", "--run-id", "b-1", "--wait", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["status"] == "failed"
    assert "run b-1 failed" in done.stderr.splitlines()[-1]
    shown = site.answer("runs", "show", "b-1")
    assert "ValueError: no such customer" in shown
    assert shown.count('raise ValueError("no such customer")') == 1  # the user's stack, once
    assert "pyrula_runtime" not in shown
    assert "pyrula runs requeue b-1" in site.answer("runs", "why", "b-1")
    assert worker.stop() == 0
    (site.folder / "app.py").write_text(
        (site.folder / "app.py").read_text().replace('raise ValueError("no such customer")', "return None")
    )
    assert site.answer("runs", "requeue", "b-1") == "b-1: queued again"
    fixed = site.serving()
    assert site.pyrula("submit", "broken", "--run-id", "b-1", "--wait").returncode == 0
    assert "done again after a requeue" in site.answer("runs", "show", "b-1")
    assert fixed.stop() == 0


def test_a_run_that_never_began_is_cancelled_at_once(site: Site) -> None:
    run_id = site.answer("submit", "order")
    assert site.answer("runs", "cancel", run_id) == f"{run_id}: cancellation requested"
    assert site.document("runs", "show", run_id)["status"] == "cancelled"
    assert site.answer("runs", "cancel", run_id)  # asked for twice, done once
    done = site.pyrula("runs", "requeue", run_id)
    assert (done.returncode, done.stdout) == (1, "")


def test_a_running_run_is_explained_and_cancelled(site: Site) -> None:
    worker = site.serving("--worker-id", "w-1")
    run_id = site.answer("submit", "stuck")
    worker.said("waits for ever")
    told = site.answer("runs", "why", run_id)
    assert f"held by worker w-1 (pid {worker.process.pid}" in told
    assert "of its lock left" in told
    assert "held by" in site.answer("runs", "show", run_id)
    assert site.answer("runs", "cancel", run_id)
    done = site.pyrula("submit", "stuck", "--run-id", run_id, "--wait")
    assert done.returncode == 1
    assert "was cancelled" in done.stderr
    assert worker.stop() == 0


def test_a_run_that_waits_for_a_full_worker_is_explained(site: Site) -> None:
    worker = site.serving("--worker-id", "w-1", "--max-concurrent-runs", "1")
    site.answer("submit", "stuck")
    worker.said("waits for ever")
    second = site.answer("submit", "order")
    assert "every worker that serves it is full (w-1 runs 1 of 1)" in site.answer("runs", "why", second)
    worker.send(signal.SIGTERM)
    worker.said("draining")
    assert "is draining" in site.answer("runs", "why", second)


def test_one_run_that_refuses_does_not_keep_the_others(site: Site) -> None:
    first, second = site.answer("submit", "order"), site.answer("submit", "order")
    done = site.pyrula("runs", "cancel", first, "nope", second)
    assert done.returncode == 1
    assert "no run 'nope'" in done.stderr
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == [first, second]


def test_waiting_ends_at_its_timeout_and_the_run_goes_on(site: Site) -> None:
    done = site.pyrula("submit", "order", "--wait", "--timeout", "0.01")
    assert (done.returncode, done.stdout) == (1, "")
    assert "has not ended after 0.01 s and goes on" in done.stderr


def test_ctrl_c_ends_the_waiting_quietly(site: Site) -> None:
    command = [*PYRULA, "submit", "order", "--wait"]
    with subprocess.Popen(
        command, cwd=site.folder, env=site.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        warning, first = process.stderr.readline(), process.stderr.readline()
        process.send_signal(signal.SIGINT)
        printed, told = process.communicate(timeout=PATIENCE_S)
    assert warning.startswith("pyrula: no worker is connected")
    assert first.startswith("submitted ")
    assert process.returncode == 130
    assert printed == ""
    assert "Traceback" not in told


def test_a_name_that_nobody_serves_is_guessed(site: Site) -> None:
    worker = site.serving()
    done = site.pyrula("submit", "oder")
    assert done.returncode == 0
    assert "pyrula: no worker serves 'oder'; those connected serve " in done.stderr
    assert "Did you mean 'order'? Its runs wait until one serves it." in done.stderr
    assert "Did you mean 'order'?" in site.answer("runs", "why", done.stdout.strip())
    assert worker.stop() == 0


def test_a_list_is_a_table_without_colour_in_a_pipe(site: Site) -> None:
    ids = [site.answer("submit", "order") for _ in range(3)]
    table = site.answer("runs", "list").splitlines()
    assert table[0].split() == ["run", "workflow", "status", "created", "took", "error"]
    assert [line.split()[0] for line in table[1:]] == ids[::-1]
    assert "\x1b" not in "".join(table)
    assert len(site.answer("runs", "list", "--limit", "2").splitlines()) == 3
    assert site.document("runs", "list", "--status", "failed", "--status", "running") == []
    assert site.pyrula("runs", "list", "--workflow", "none").stdout == ""


def test_a_reader_that_goes_away_is_no_error(site: Site) -> None:
    site.answer("submit", "order")
    read, write = os.pipe()
    os.close(read)
    with subprocess.Popen(
        [*PYRULA, "runs", "list"], cwd=site.folder, env=site.environ, stdout=write, stderr=subprocess.PIPE
    ) as process:
        os.close(write)
        _, told = process.communicate(timeout=PATIENCE_S)
    assert told == b""


def commands() -> list[tuple[str, ...]]:
    groups = {
        "runs": ("list", "show", "why", "cancel", "pause", "resume", "requeue", "fork", "replay"),
        "store": ("backup", "check"),
    }
    names = root.list_commands(root.make_context("pyrula", ["doctor"]))
    return [(), *((name,) for name in names), *((group, name) for group, each in groups.items() for name in each)]


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_help_ends_with_an_example(site: Site, command: tuple[str, ...]) -> None:
    told = site.answer(*command, "--help")
    assert f"Example: {'eval' if command == ('completion',) else 'pyrula'}" in told.split("\n\n")[-1]
    assert "..." not in told.partition("Commands:")[2]


def test_without_a_command_help_is_given(site: Site) -> None:
    done = site.pyrula()
    assert done.returncode == 2
    assert "Commands:" in done.stdout


def test_the_version_is_that_of_the_package(site: Site) -> None:
    from pyrula import __version__

    assert site.answer("--version") == f"pyrula {__version__}"
