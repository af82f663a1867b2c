"""How a worker ends: a drain that waits, one that gives up, a second signal, and what the probes say meanwhile."""

from __future__ import annotations

import json
import signal
import socket
import urllib.parse

import pytest

from tests.cli.sites import Site, Worker, probe

NO_PATIENCE = ("--shutdown-grace", "0", "--cancel-timeout", "0.1")


def submitted(site: Site, workflow: str, given: str = "{}") -> str:
    return site.answer("submit", workflow, given)


def status(site: Site, run_id: str) -> str:
    told: str = site.document("runs", "show", run_id)["status"]
    return told


def holding(site: Site, worker: Worker) -> tuple[str, str]:
    """A run whose step waits at a gate: its id, and the gate's path."""
    gate = str(site.gate())
    run_id = submitted(site, "held", f'{{"gate": "{gate}"}}')
    worker.said("waits at the gate")
    return run_id, gate


def opened(gate: str) -> None:
    """Let the step at the gate go on."""
    with open(gate, "w") as file:
        file.write("open")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_without_runs_drains_at_once(site: Site, number: signal.Signals) -> None:
    worker = site.serving()
    worker.send(number)
    assert worker.code() == 0


def test_a_drain_lets_a_running_step_finish_and_the_probes_say_so(site: Site) -> None:
    worker = site.start("--health-port", "0")
    url = worker.url()
    worker.said(" serves ")
    run_id, gate = holding(site, worker)
    assert probe(f"{url}/readyz") == (200, {"status": "ok"})
    worker.send(signal.SIGTERM)
    worker.said("draining: 1 runs")
    code, told = probe(f"{url}/readyz")
    assert (code, told["status"]) == (503, "draining")
    assert probe(f"{url}/livez") == (200, {"status": "ok"})
    waiting = submitted(site, "order")
    opened(gate)
    assert worker.code() == 0
    assert status(site, run_id) == "completed"
    assert status(site, waiting) == "queued"  # it claims no more


def test_a_drain_hands_back_what_does_not_finish(site: Site) -> None:
    worker = site.serving(*NO_PATIENCE)
    run_id = submitted(site, "stuck")
    worker.said("waits for ever")
    assert worker.stop() == 0
    assert status(site, run_id) == "queued"


def test_a_thread_that_hangs_does_not_keep_the_process(site: Site) -> None:
    worker = site.serving(*NO_PATIENCE)
    run_id, _gate = holding(site, worker)
    assert worker.stop() == 0
    assert status(site, run_id) == "queued"


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [
        (signal.SIGTERM, signal.SIGTERM, 143),
        (signal.SIGINT, signal.SIGINT, 130),
        (signal.SIGTERM, signal.SIGINT, 130),
    ],
)
def test_a_second_signal_ends_it_at_once_and_the_run_goes_on(
    site: Site, first: signal.Signals, second: signal.Signals, code: int
) -> None:
    worker = site.serving()
    run_id, gate = holding(site, worker)
    worker.send(first)
    worker.said("draining: 1 runs")
    worker.send(second)
    assert worker.code() == code
    assert not any("Traceback" in line for line in worker.lines)
    assert status(site, run_id) == "running"
    heir = site.serving()
    heir.said("waits at the gate")  # long before the lock's 30 s are over: the heir buried the dead
    opened(gate)
    assert heir.stop() == 0
    assert status(site, run_id) == "completed"


def test_a_signal_before_it_serves_ends_it(site: Site) -> None:
    gate = site.gate()
    source = f"import sys\nprint('importing', file=sys.stderr, flush=True)\nopen({str(gate)!r}).read()\n"
    (site.folder / "slow.py").write_text(source)
    worker = site.start(target="slow")
    worker.said("importing")
    worker.send(signal.SIGTERM)
    assert worker.code() == 0


def test_what_was_registered_for_the_exit_is_run(site: Site) -> None:
    source = "import atexit, sys\natexit.register(lambda: print('good bye', file=sys.stderr))\nfrom app import order\n"
    (site.folder / "polite.py").write_text(source)
    worker = site.start(target="polite:order")
    worker.said(" serves ")
    worker.send(signal.SIGTERM)
    worker.said("good bye")
    assert worker.code() == 0


def test_an_exit_function_that_hangs_does_not_keep_the_process(site: Site) -> None:
    gate = site.gate()
    source = f"import atexit\natexit.register(lambda: open({str(gate)!r}).read())\nfrom app import order\n"
    (site.folder / "rude.py").write_text(source)
    worker = site.start(target="rude:order")
    worker.said(" serves ")
    assert worker.stop() == 0


def test_half_open_clients_do_not_delay_the_end(site: Site) -> None:
    worker = site.start("--health-port", "0")
    where = urllib.parse.urlsplit(worker.url())
    worker.said(" serves ")
    with socket.create_connection((where.hostname or "", where.port or 0)) as client:
        client.sendall(b"GET /livez HTTP/1.1\r\nHost: x")
        assert worker.stop() == 0


def test_a_worker_writes_json_lines_if_asked(site: Site) -> None:
    worker = site.serving("--log-format", "json", "--worker-id", "pod-7")
    run_id, gate = holding(site, worker)
    opened(gate)
    assert worker.stop() == 0
    lines = [json.loads(line) for line in worker.lines]
    (held,) = [line for line in lines if line["message"] == "waits at the gate"]
    assert (held["run_id"], held["workflow"], held["step"]) == (run_id, "held", "wait_for")
    assert any("worker pod-7 serves" in line["message"] for line in lines)
