"""`pyrula runs requeue`: by id and by description, at a rate, asked for on a terminal, and interrupted."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import subprocess
from collections.abc import Iterator

import pytest

from pyrula.workflows import RunStatus, WorkflowClient, open_store
from pyrula_runtime.core.blame import Cause
from pyrula_runtime.core.errors import ErrorRecord
from pyrula_runtime.engine.codec import dump_error
from pyrula_runtime.stores.protocol import Release
from tests.cli.sites import PATIENCE_S, PYRULA, Site
from tests.client.convicts import quarantined, taken

BLOCKED, CRASHED, FAILED, PAUSED = "r-0", "r-1", "r-2", "r-3"


@pytest.fixture
def ended(site: Site) -> Site:
    """A site with a run of each kind that can be requeued, and one that is queued."""

    async def fill() -> None:
        store = open_store(site.store)
        error = dump_error(ErrorRecord(type="ValueError", message="broken"))
        async with WorkflowClient(store) as client:
            for number in range(5):
                await client.submit("order", run_id=f"r-{number}")
            await quarantined(store, "order")
            await quarantined(store, "order", Cause.crashed)
            for status in (RunStatus.failed, RunStatus.paused):
                claim = await taken(store, "order")
                assert await store.release(Release(token=claim.token, status=status, ready=False, error=error))

    asyncio.run(fill())
    return site


def statuses(site: Site) -> dict[str, str]:
    return {each["run_id"]: each["status"] for each in site.document("runs", "list")}


def test_runs_are_requeued_by_what_they_are(ended: Site) -> None:
    done = ended.pyrula("runs", "requeue", "--status", "quarantined", "--cause", "loop_blocked", "--newer-than", "1h")
    assert (done.returncode, done.stdout) == (0, f"{BLOCKED}: queued again\n")
    assert done.stderr == ""
    done = ended.pyrula("runs", "requeue", "--workflow", "order", "--limit", "2", "--rate", "100/s", "--yes")
    assert (done.returncode, done.stdout) == (0, f"{CRASHED}: queued again\n{FAILED}: queued again\n")
    assert done.stderr == "pyrula: 2 of 2 runs requeued\n"
    assert statuses(ended) == {
        BLOCKED: "queued",
        CRASHED: "queued",
        FAILED: "queued",
        PAUSED: "paused",
        "r-4": "queued",
    }
    done = ended.pyrula("runs", "requeue", "--status", "failed", "--older-than", "1d")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "pyrula: no run that can be requeued is like that\n"


def test_a_dry_run_changes_nothing(ended: Site) -> None:
    before = statuses(ended)
    done = ended.pyrula("runs", "requeue", "--workflow", "order", "--dry-run")
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["run", BLOCKED, CRASHED, FAILED, PAUSED]
    assert done.stderr == "4 runs (2 quarantined, 1 failed, 1 paused) would be requeued\n"
    done = ended.pyrula("runs", "requeue", "--dry-run", BLOCKED, "r-4", "nope")
    assert (done.returncode, done.stdout) == (1, f"{BLOCKED}: quarantined, would be queued again\n")
    assert done.stderr.splitlines() == [
        "pyrula: run r-4 is queued and would stay so",
        "pyrula: no run 'nope' in this store; check the id and the store URL",
    ]
    assert statuses(ended) == before


def test_each_run_that_refuses_is_told(ended: Site) -> None:
    done = ended.pyrula("runs", "requeue", "r-4", FAILED, "nope")
    assert (done.returncode, done.stdout) == (1, f"{FAILED}: queued again\n")
    queued, unknown, counted = done.stderr.splitlines()
    assert "run r-4 is queued; only a run that failed, was quarantined or is paused can be requeued" in queued
    assert "no run 'nope' in this store" in unknown
    assert counted == "pyrula: 1 of 3 runs requeued, 2 refused"


class Terminal:
    """A command on a terminal: what it shows is read up to words that are waited for."""

    def __init__(self, site: Site, *args: str) -> None:
        self.ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [*PYRULA, "runs", "requeue", *args],
            cwd=site.folder,
            env=site.environ | {"TERM": "xterm"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.shown = ""

    def until(self, words: str) -> None:
        while words not in self.shown:
            self.shown += os.read(self.ours, 4096).decode()

    def type(self, text: str) -> None:
        os.write(self.ours, text.encode())

    def code(self) -> int:
        """Its exit code; what it still said is in `shown`."""
        code = self.process.wait(PATIENCE_S)
        try:
            while more := os.read(self.ours, 4096):
                self.shown += more.decode()
        except OSError:  # so a terminal ends that nobody has open any more
            return code
        return code

    def close(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)
        os.close(self.ours)


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.close()


def on_terminal(terminals: list[Terminal], site: Site, *args: str) -> Terminal:
    terminals.append(Terminal(site, *args))
    return terminals[-1]


def test_a_terminal_is_asked_first(ended: Site, terminals: list[Terminal]) -> None:
    terminal = on_terminal(terminals, ended, "--status", "quarantined", "--status", "failed")
    terminal.until("Requeue 3 runs (2 quarantined, 1 failed)? [y/N]")
    terminal.type("n\n")
    assert terminal.code() == 130
    assert statuses(ended)[FAILED] == "failed"
    terminal = on_terminal(terminals, ended, "--status", "quarantined")
    terminal.until("Requeue 2 quarantined runs? [y/N]")
    terminal.type("y\n")
    assert terminal.code() == 0
    assert "2 of 2 runs requeued" in terminal.shown
    assert "r-0: queued again" not in terminal.shown  # the line that counts says it
    assert statuses(ended)[FAILED] == "failed"
    terminal = on_terminal(terminals, ended, "--status", "failed", "--yes")
    assert terminal.code() == 0
    assert "?" not in terminal.shown
    assert "1 of 1 runs requeued" in terminal.shown


def test_ids_are_not_asked_about(ended: Site, terminals: list[Terminal]) -> None:
    terminal = on_terminal(terminals, ended, BLOCKED, CRASHED)
    assert terminal.code() == 0
    assert "?" not in terminal.shown
    assert f"{CRASHED}: queued again" in terminal.shown


def test_an_interrupt_tells_how_far_it_came(ended: Site, terminals: list[Terminal]) -> None:
    terminal = on_terminal(terminals, ended, "--workflow", "order", "--yes", "--rate", "1/h")
    terminal.until("1 of 4 requeued, 3 h to go")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.code() == 130
    assert "1 of 4 runs requeued, 3 are as they were" in terminal.shown
    assert "Traceback" not in terminal.shown
    assert statuses(ended) == {
        BLOCKED: "queued",
        CRASHED: "quarantined",
        FAILED: "failed",
        PAUSED: "paused",
        "r-4": "queued",
    }
