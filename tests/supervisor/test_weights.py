"""Real processes on the scales: what they take is read without asking them, and the dead weigh nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from pyrula_supervisor import weights
from pyrula_supervisor.weights import Scales, uss_of

MIB = 1 << 20
HOG = f"block = bytearray(b'x') * {64 * MIB}; print(flush=True); input()"


@pytest.fixture
def hog() -> Iterator[subprocess.Popen[bytes]]:
    """A process with 64 MiB of its own."""
    command = [sys.executable, "-c", HOG]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_residence_and_cpu(hog: subprocess.Popen[bytes]) -> None:
    scales = Scales()
    scales.weigh({"hog": hog.pid, "me": os.getpid()}, 1_000)
    first = scales.weights["hog"]
    assert first.cpu_percent is None
    before = os.times().user
    while os.times().user < before + 0.2:
        pass
    scales.weigh({"hog": hog.pid, "me": os.getpid()}, 2_000)
    assert (scales.weights["hog"].rss_bytes or 0) > 64 * MIB
    assert (scales.weights["hog"].cpu_percent or 0) < 10  # it sleeps, but may still be falling asleep
    assert (scales.weights["me"].cpu_percent or 0) >= 18


def test_what_it_has_for_itself_is_read_aside(hog: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    read = threading.Event()

    def noticed(pid: int) -> int | None:
        try:
            return uss_of(pid)
        finally:
            read.set()

    monkeypatch.setattr(weights, "uss_of", noticed)
    scales = Scales()
    scales.weigh({"hog": hog.pid}, 1_000)
    assert read.wait(60)
    while (weight := scales.weights["hog"]).uss_bytes is None:
        scales.weigh({"hog": hog.pid}, 2_000)
    assert 64 * MIB < weight.uss_bytes < 100 * MIB
    assert weight.uss_ms == 2_000


def test_one_that_hangs_while_it_is_read_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def hangs(pid: int) -> None:
        asked.set()
        go_on.wait()

    monkeypatch.setattr(weights, "uss_of", hangs)
    scales = Scales()
    for at_ms in range(1_000, 100_000, 2_000):
        scales.weigh({"me": os.getpid()}, at_ms)
    assert asked.wait(60)
    assert scales.weights["me"].rss_bytes
    assert scales.weights["me"].uss_bytes is None
    go_on.set()


def test_the_dead_weigh_nothing_and_are_forgotten(hog: subprocess.Popen[bytes]) -> None:
    scales = Scales()
    scales.weigh({"hog": hog.pid}, 1_000)
    hog.kill()
    hog.wait()
    scales.weigh({"hog": hog.pid}, 2_000)
    assert scales.weights["hog"].rss_bytes is None
    scales.weigh({}, 3_000)
    assert scales.weights == {}
