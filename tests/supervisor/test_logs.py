"""The supervisor's log reaches its reader, and never waits for one."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import pty
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyrula_runtime.log_stream import PatientLog, PatientStream
from pyrula_supervisor import logs

LINE = "x" * 99 + "\n"


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


@contextlib.contextmanager
def stream_to(fd: int, kept: int = 1_000) -> Iterator[PatientStream]:
    made = PatientStream(fd, kept)
    yield made
    made.close()


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, put back as it was."""
    logger = logging.getLogger()
    before, level = list(logger.handlers), logger.level
    for each in before:
        logger.removeHandler(each)
    yield logger
    logger.handlers[:] = before
    logger.setLevel(level)


def emptied(reader: int) -> bytes:
    """All that is in a pipe now."""
    os.set_blocking(reader, False)
    found = b""
    while True:
        try:
            found += os.read(reader, 1 << 20)
        except BlockingIOError:
            return found


def test_a_full_pipe_is_not_waited_for_and_what_was_lost_is_owned_up_to(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    size = fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ)
    with stream_to(writer) as stream:
        for _ in range(size // len(LINE) + 100):
            stream.write(LINE)
        lost = stream.lost
        text = emptied(reader)
        stream.push()
        text += emptied(reader)
    assert lost > 0
    lines = text.decode().splitlines()
    assert lines[-1] == f"({lost} lines of this log were lost, because nobody read them)"
    assert set(lines[:-1]) == {LINE.rstrip()}
    assert len(lines) - 1 + lost == size // len(LINE) + 100


def test_the_others_who_have_the_pipe_still_wait(pipe: tuple[int, int]) -> None:
    _, writer = pipe
    with stream_to(writer) as stream:
        stream.write(LINE)
        assert os.get_blocking(writer)


def test_a_reader_that_went_away_costs_nothing() -> None:
    reader, writer = os.pipe()
    with stream_to(writer) as stream:
        os.close(reader)
        for _ in range(10_000):
            stream.write(LINE)
        assert stream.lost == 0
    os.close(writer)


def test_a_socket_is_not_waited_for() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, stream_to(ours.fileno()) as stream:
        for _ in range(100_000):
            stream.write(LINE)
        assert stream.lost > 0
        assert theirs.recv(len(LINE)).decode() == LINE


def test_a_file_keeps_the_place_that_it_shares(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb", buffering=0) as file, stream_to(file.fileno()) as stream:
        file.write(b"before\n")
        stream.write("between\n")
        file.write(b"after\n")
    assert path.read_text() == "before\nbetween\nafter\n"


def test_a_terminal_is_written_to() -> None:
    leader, terminal = pty.openpty()
    with stream_to(terminal) as stream:
        stream.write("hello\n")
    assert os.read(leader, 100) == b"hello\r\n"
    os.close(leader)
    os.close(terminal)


def test_a_pipe_that_cannot_be_opened_again_is_asked_for_room(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_args: object) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "open", refused)
    stream = PatientStream(pipe[1], kept=1_000)
    monkeypatch.undo()
    for _ in range(2_000):
        stream.write(LINE)
    assert stream.lost > 0
    assert emptied(pipe[0]).startswith(LINE.encode())


def test_a_worker_that_logs_into_a_full_pipe_goes_on_and_what_it_kept_comes_later(pipe: tuple[int, int]) -> None:
    log, target = logging.Logger("user"), PatientLog(pipe[1])
    log.addHandler(target)
    for number in range(1_500):
        log.error("%d %s", number, LINE.strip())  # a write that waited would never return
    assert target.stream.is_behind
    assert target.stream.lost == 0
    os.set_blocking(pipe[0], True)
    with open(pipe[0], "rb", closefd=False) as reader:
        numbers = [int(reader.readline().split()[0]) for _ in range(1_500)]
    assert numbers == list(range(1_500))
    target.close()
    target.stream.close()


def test_an_end_does_not_wait_for_a_reader_that_sleeps(pipe: tuple[int, int]) -> None:
    target = PatientLog(pipe[1])
    for _ in range(1_500):
        target.handle(logging.makeLogRecord({"msg": LINE}))
    target.close()
    gave_up = target.stream.is_behind
    while target.stream.is_behind:  # and then its thread ends
        emptied(pipe[0])
    assert gave_up
    target.stream.close()


@pytest.mark.parametrize("fmt", ["text", "json"])
def test_records_come_as_text_or_json(pipe: tuple[int, int], root: logging.Logger, fmt: str) -> None:
    stream = logs.configure(fmt, "info", pipe[1])
    logging.getLogger("pyrula.supervisor").info("two\nlines \udcff")
    logging.getLogger("pyrula.supervisor").debug("not asked for")
    stream.close()
    text = emptied(pipe[0]).decode()
    if fmt == "json":
        record = json.loads(text)
        assert (record["level"], record["message"]) == ("info", "two\nlines \udcff")
    else:
        first, second = text.splitlines()
        assert first.endswith("INFO    pyrula.supervisor two")
        assert second.endswith("pyrula.supervisor lines \\udcff")
