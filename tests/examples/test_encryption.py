"""The example that encrypts: nothing of a secret stands in the store, and keys can be changed."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidTag

from examples.encryption.aes_gcm import AesGcm, keys_from

OLD, NEW = bytes(range(32)), bytes(range(32, 64))


def test_a_payload_comes_back_and_none_is_like_another() -> None:
    codec = AesGcm([OLD])
    first, second = codec.encode(b"secret"), codec.encode(b"secret")
    assert first != second
    assert b"secret" not in first
    assert codec.decode(first) == codec.decode(second) == b"secret"


def test_what_was_changed_is_refused_wherever_it_was() -> None:
    codec = AesGcm([OLD])
    stored = codec.encode(b"secret")
    for at in range(len(stored)):
        changed = stored[:at] + bytes([stored[at] ^ 1]) + stored[at + 1 :]
        with pytest.raises((InvalidTag, ValueError)):
            codec.decode(changed)


def test_a_new_key_writes_while_the_old_one_still_reads() -> None:
    before, between = AesGcm([OLD]).encode(b"secret"), AesGcm([NEW, OLD])
    assert between.decode(before) == b"secret"
    with pytest.raises(ValueError, match="there is no key"):
        AesGcm([OLD]).decode(between.encode(b"secret"))
    assert AesGcm([NEW]).decode(between.encode(b"secret")) == b"secret"
    with pytest.raises(ValueError, match="set PAYLOAD_KEYS"):
        AesGcm([])


def test_keys_come_from_the_environment_newest_first() -> None:
    told = ",".join(base64.b64encode(key).decode() for key in (NEW, OLD))
    assert keys_from({"PAYLOAD_KEYS": told}) == [NEW, OLD]
    assert keys_from({}) == []


SECRET = "Ernestine"
ROOT = Path(__file__).parents[2]


class Shell:
    """Commands that share a store, with keys or without."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "runs.db"
        self.environ = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "HOME": str(folder),
            "XDG_STATE_HOME": str(folder),
            "XDG_RUNTIME_DIR": str(folder),
            "PYRULA_STORE_URL": f"sqlite:///{self.store}",
        }
        self.keys = {
            "PYRULA_CODEC": "examples.encryption.app:codec",
            "PAYLOAD_KEYS": base64.b64encode(NEW).decode(),
        }

    def pyrula(self, *args: str, keys: bool = True) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pyrula_runtime.cli", *args],
            cwd=ROOT,
            env=self.environ | (self.keys if keys else {}),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def worker(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "pyrula_runtime.cli", "worker", "--workflow", "examples.encryption.app"]
        return subprocess.Popen(command, cwd=ROOT, env=self.environ | self.keys, stderr=subprocess.PIPE, text=True)


def test_nothing_of_a_secret_stands_in_the_store(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    worker = shell.worker()
    try:
        done = shell.pyrula("submit", "greet_in_secret", f'{{"name": "{SECRET}"}}', "--wait", "--run-id", "good")
        assert done.stdout == f'"Hello {SECRET}!"\n'
        failed = shell.pyrula("submit", "greet_in_secret", '{"name": "nobody"}', "--wait", "--run-id", "bad")
        assert "nobody cannot be greeted" in failed.stderr
        shell.pyrula("submit", "elsewhere", "{}", "--run-id", "open")
        assert "cannot be greeted" in shell.pyrula("runs", "list").stdout
        shown = shell.pyrula("runs", "show", "good").stdout
        assert SECRET in shown
        blind = shell.pyrula("runs", "show", "good", keys=False)
        assert (blind.returncode, SECRET in blind.stdout) == (0, False)
        assert "compose#1" in blind.stdout
        assert "PYRULA_CODEC" in blind.stdout
        requeued = shell.pyrula("runs", "requeue", "bad", keys=False)
        assert requeued.stdout == "bad: queued again\n"
    finally:
        worker.terminate()
        worker.communicate(timeout=60)
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("runs.db*") if path.is_file())
    assert b"compose#1" in written
    for secret in (SECRET, "cannot be greeted"):
        assert secret.encode() not in written
