"""Lines lose what nobody reads, forget what is no message, and notice the end; they never wait."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from pyrula_runtime.uplink import Heard, Uplink
from pyrula_runtime.wire import MAX_PACKET, Drain, Fork, Hello, Report, Role, Start, WireError, encode
from pyrula_supervisor.links import Link

REPORT = Report(
    incarnation="i", turns_running=1, turns_done=2, capacity=3, lane_lag_ms=0.5, draining=False, store_ok=True
)
START = Start(role=Role.worker, incarnation="i", slot=0, generation=1, supervisor_pid=1)


@pytest.fixture
def link() -> Iterator[Link]:
    made = Link()
    yield made
    made.close()


@pytest.fixture
def uplink(link: Link) -> Iterator[Uplink]:
    """The process's end, which has read its start."""
    link.send(START)
    made = Uplink(link.far_end.dup())
    link.hand_over()
    assert made.read_start() == START
    yield made
    made.close()


def test_messages_go_both_ways_in_order(link: Link, uplink: Uplink) -> None:
    assert uplink.hear() is None
    assert list(link.receive()) == []
    link.send(Drain())
    uplink.say(Hello(incarnation="i", pid=7))
    uplink.say(REPORT)
    assert uplink.hear() == Heard(message=Drain())
    assert list(link.receive()) == [Hello(incarnation="i", pid=7), REPORT]


def test_what_a_process_does_not_read_is_lost_and_nobody_waits(link: Link, uplink: Uplink) -> None:
    sent = 0
    while link.send(Drain()):
        sent += 1
        assert sent < 1_000_000
    assert link.lost == 1
    heard = 0
    while uplink.hear() is not None:
        heard += 1
    assert heard == sent


def test_what_the_supervisor_does_not_read_is_lost_and_nobody_waits(link: Link, uplink: Uplink) -> None:
    sent = 0
    while uplink.say(REPORT):
        sent += 1
        assert sent < 1_000_000
    assert uplink.lost == 1
    received = 0
    while batch := list(link.receive(10)):
        assert len(batch) <= 10
        received += len(batch)
    assert received == sent
    assert not link.is_over


@pytest.mark.parametrize(
    "packet",
    [
        b"",
        b"{",
        encode(REPORT)[:-5],
        b'{"is":"Nothing"}',
        b'{"is":"Report"}',
        b"[]",
        b"\xff\xfe",
        b"x" * (MAX_PACKET + 1),
    ],
)
def test_what_is_no_message_is_counted_and_forgotten(link: Link, packet: bytes) -> None:
    link.far_end.send(packet)
    link.far_end.send(encode(REPORT))
    assert list(link.receive()) == [REPORT]
    assert (link.unheard, link.is_over) == (1, False)


@pytest.mark.parametrize("packet", [b"{", b'{"is":"Nothing"}', b"x" * (MAX_PACKET + 1)])
def test_a_process_forgets_what_is_no_message_too(link: Link, uplink: Uplink, packet: bytes) -> None:
    link._sock.send(packet)
    link.send(Drain())
    assert uplink.hear() == Heard(message=Drain())
    assert uplink.unheard == 1


def test_the_end_of_the_line_is_noticed_on_both_sides() -> None:
    link = Link()
    link.far_end.send(encode(REPORT))
    link.hand_over()
    assert list(link.receive()) == [REPORT]
    assert link.is_over
    assert not link.send(Drain())
    link.close()

    other = Link()
    uplink = Uplink(other.far_end.dup())
    uplink._sock.setblocking(False)
    other.close()
    with pytest.raises(EOFError):
        uplink.hear()
    assert not uplink.say(REPORT)
    uplink.close()


def test_a_descriptor_comes_with_its_message_and_is_not_inherited(link: Link, uplink: Uplink) -> None:
    reader, writer = os.pipe()
    assert link.send(Fork(start=START), [writer])
    os.close(writer)
    heard = uplink.hear()
    assert heard is not None
    assert heard.message == Fork(start=START)
    [fd] = heard.fds
    assert not os.get_inheritable(fd)
    os.write(fd, b"hello")
    os.close(fd)
    assert os.read(reader, 10) == b"hello"
    os.close(reader)


def test_a_descriptor_that_a_process_sends_is_closed(link: Link) -> None:
    reader, writer = os.pipe()
    socket.send_fds(link.far_end, [encode(REPORT)], [writer])
    os.close(writer)
    assert list(link.receive()) == [REPORT]
    assert os.read(reader, 1) == b""  # nobody has the other end any more
    os.close(reader)


def test_the_first_message_must_be_a_start(link: Link) -> None:
    link.send(Drain())
    uplink = Uplink(link.far_end.dup())
    with pytest.raises(WireError, match="must be Start"):
        uplink.read_start()
    with pytest.raises(TimeoutError):
        uplink.read_start(patience_s=0.01)
    link.close()
    with pytest.raises((EOFError, ConnectionError)):
        uplink.read_start(patience_s=0.01)
    uplink.close()
