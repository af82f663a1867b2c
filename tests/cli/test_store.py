"""The store from the command line: backup, check, doctor; and the completion scripts."""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

from pyrula_runtime.cli.tables import harmless, size
from tests.cli.sites import PATIENCE_S, PYRULA, Site, probe


def test_a_backup_is_a_store_with_the_same_runs(site: Site) -> None:
    run_id = site.answer("submit", "order")
    copy = site.folder / "copy.db"
    assert str(copy) in site.answer("store", "backup", str(copy))
    assert site.answer("store", "check", "--store", f"sqlite:///{copy}").endswith("is sound")
    assert [each["run_id"] for each in site.document("runs", "list", "--store", f"sqlite:///{copy}")] == [run_id]


def test_a_backup_leaves_what_exists_alone(site: Site) -> None:
    site.answer("submit", "order")
    target = site.folder / "precious"
    target.write_text("mine")
    done = site.pyrula("store", "backup", str(target))
    assert (done.returncode, done.stdout) == (2, "")
    assert "exists already" in done.stderr
    assert target.read_text() == "mine"


def test_a_damaged_store_is_found(site: Site) -> None:
    site.answer("submit", "order")
    copy = site.folder / "copy.db"
    site.answer("store", "backup", str(copy))
    whole = copy.read_bytes()
    copy.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    done = site.pyrula("store", "check", "--store", f"sqlite:///{copy}")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stdout


def test_doctor_finds_a_fresh_store_well(site: Site) -> None:
    told = site.document("doctor")
    assert told["faults"] == []
    assert told["store"]["ok"] is True
    assert told["store"]["url"] == site.store
    assert told["store"]["runs"] == {}
    assert told["store"]["file_bytes"] > 0
    assert told["workers"] == []
    assert told["runtime_dir"]["path"] == str(site.folder / "run" / "pyrula")
    assert told["options"] == {}
    assert {"pyrula", "python", "sqlite"} <= told["versions"].keys()
    text = site.answer("doctor")
    assert site.store in text
    assert text.splitlines()[-1] in ("all is well", "it works, but see the warnings")


def test_doctor_tells_workers_runs_and_options(site: Site) -> None:
    worker = site.serving("--worker-id", "w-1", "--max-concurrent-runs", "3")
    site.answer("submit", "order", "--wait")
    told = site.document("doctor")
    assert [(each["worker_id"], each["pid"], each["capacity"]) for each in told["workers"]] == [
        ("w-1", worker.process.pid, 3)
    ]
    assert told["store"]["runs"] == {"completed": 1}
    assert told["runtime_dir"]["boxes_alive"] == 1
    assert "w-1" in site.answer("doctor")
    worker.end()
    dead = site.document("doctor")
    assert dead["runtime_dir"]["boxes_dead"] == 1
    assert any("died here" in warning for warning in dead["warnings"])


def test_doctor_tells_all_that_is_wrong(site: Site) -> None:
    (site.folder / "file").write_text("")
    done = site.pyrula(
        "doctor",
        "--store",
        f"sqlite:///{site.folder}/file/pyrula.db",
        environ={"PYRULA_LOCK_TTL": "-1", "PYRULA_CLOUD_API_KEY": "secret", "PYRULA_SHARD_COUNT": "7"},
    )
    assert done.returncode == 1
    assert "secret" not in done.stdout
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("wrong: ") and "PYRULA_LOCK_TTL" in line]
    assert [line for line in lines if line.startswith("wrong: ") and "cannot be opened" in line]
    assert [line for line in lines if line.startswith("warning: ") and "PYRULA_CLOUD_API_KEY" in line]


def test_doctor_tells_options_that_were_changed(site: Site) -> None:
    done = site.pyrula("doctor", environ={"PYRULA_LOCK_TTL": "12", "PYRULA_POISON_MAX_RETRIES": "5"})
    assert done.returncode == 0
    assert "lock_ttl = 12" in done.stdout
    assert "poison.max_retries = 5" in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_printed(site: Site, shell: str) -> None:
    script = site.answer("completion", shell)
    assert "_PYRULA_COMPLETE" in script
    assert len(script.splitlines()) > 5


@pytest.mark.parametrize(
    ("words", "position", "wanted"),
    [
        ("pyrula ru", 1, {"runs"}),
        ("pyrula runs list --st", 3, {"--status", "--store"}),
        ("pyrula worker --isolation ", 3, {"lane", "turn"}),
        ("pyrula completion ", 2, {"bash", "zsh", "fish"}),
    ],
)
def test_a_shell_is_told_what_may_come(site: Site, words: str, position: int, wanted: set[str]) -> None:
    environ = site.environ | {"COMP_WORDS": words, "COMP_CWORD": str(position), "_PYRULA_COMPLETE": "bash_complete"}
    done = subprocess.run(PYRULA, env=environ, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert {line.partition(",")[2] for line in done.stdout.splitlines()} == wanted


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 B"), (999, "999 B"), (1_000, "1.0 KB"), (412_345, "412 KB"), (5_250_000, "5.2 MB"), (10**16, "10000 TB")],
)
def test_sizes_are_said_as_people_read_them(count: int, words: str) -> None:
    assert size(count) == words


def test_stored_text_cannot_command_a_terminal() -> None:
    assert harmless("a\x1b[31mb\tc\nd\x9bé") == "a\N{REPLACEMENT CHARACTER}[31mb\tc\nd\N{REPLACEMENT CHARACTER}é"


def test_commands_work_from_a_relative_store_url(site: Site) -> None:
    run_id = site.answer("submit", "order", "--store", "sqlite:///here.db")
    assert Path(site.folder, "here.db").exists()
    assert site.document("runs", "show", run_id, "--store", "sqlite:///here.db")["status"] == "queued"


def test_whoever_keeps_the_write_lock_is_named_and_the_worker_is_not_ready_meanwhile(site: Site) -> None:
    worker = site.start("--health-port", "0")
    url = worker.url()
    worker.said(" serves ")
    with (site.folder / "store" / "pyrula.db.lock").open("r+") as kept:
        fcntl.lockf(kept, fcntl.LOCK_EX, 1)
        assert f"held by process {os.getpid()} " in worker.said("not ready: the write lock")
        code, told = probe(f"{url}/readyz")
    assert (code, told["status"]) == (503, "store_unavailable")
    worker.said("the store answers again")
