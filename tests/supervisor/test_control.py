"""The control socket: commands and their answers, and peers that are slow, odd, foreign, or too many."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from pyrula_runtime.core.errors import ConfigurationError, NoSupervisor, UsageError
from pyrula_supervisor import asking, control
from pyrula_supervisor.actions import Answer
from pyrula_supervisor.asking import Door
from pyrula_supervisor.control import MAX_PEERS, ControlSocket
from pyrula_supervisor.events import DumpAsked, Event, ReloadAsked, RestartAsked, ScaleAsked, StopAsked
from pyrula_supervisor.naming import address_of, is_taken, take_name
from pyrula_supervisor.requests import MAX_REQUEST, Lines, Reply, Request, encoded, reply_of, request_of

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Controlled:
    """A supervisor that only writes down what it is asked."""

    version = "1.2.3"
    stopping = False

    def __init__(self) -> None:
        self.events: asyncio.Queue[Event] = asyncio.Queue()
        self.text = "4/4 ready"

    def post(self, event: Event) -> None:
        self.events.put_nowait(event)

    def document(self) -> dict[str, Any]:
        return {"supervisor": {"pid": os.getpid()}}

    def progress(self) -> str:
        return self.text

    def now_ms(self) -> int:
        return 1_000


@pytest.fixture
def controlled() -> Controlled:
    return Controlled()


@pytest.fixture
async def server(controlled: Controlled, tmp_path: Path) -> AsyncIterator[ControlSocket]:
    made = ControlSocket(controlled)
    await made.open(tmp_path / "default.sock")
    async with asyncio.timeout(60):
        yield made
    made.close()


@pytest.fixture
def door(server: ControlSocket, tmp_path: Path) -> Door:
    return Door(directory=tmp_path, name="default")


@contextlib.asynccontextmanager
async def connected(path: Path) -> AsyncIterator[Streams]:
    with address_of(path) as address:
        streams = await asyncio.open_unix_connection(address)
    yield streams
    streams[1].close()
    with contextlib.suppress(ConnectionError):
        await streams[1].wait_closed()


async def asked(door: Door, command: str, *, wait: bool = False, number: int = -1) -> Reply:
    return await asyncio.to_thread(door.ask, Request(command=command, wait=wait, number=number))


# commands


async def test_status_and_version_are_answered_at_once(door: Door) -> None:
    assert (await asked(door, "status")).document == {"supervisor": {"pid": os.getpid()}}
    assert (await asked(door, "version")).text == "1.2.3"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("scale", ScaleAsked(now_ms=1_000, procs=3, asker=1)),
        ("restart", RestartAsked(now_ms=1_000, slot=3, asker=1)),
        ("dump", DumpAsked(now_ms=1_000, slot=3, asker=1)),
    ],
)
async def test_commands_with_a_number_wait_for_their_answer(
    door: Door, server: ControlSocket, controlled: Controlled, command: str, expected: DumpAsked
) -> None:
    waiting = asyncio.create_task(asked(door, command, number=3))
    event = await controlled.events.get()
    assert event == expected
    server.answer(Answer(asker=expected.asker, ok=False, text="no such slot"))
    assert await waiting == Reply(ok=False, text="no such slot")


async def test_a_reload_is_waited_for_only_on_request(
    door: Door, server: ControlSocket, controlled: Controlled
) -> None:
    assert (await asked(door, "reload")).ok
    event = await controlled.events.get()
    assert isinstance(event, ReloadAsked)
    assert event.asker == 0
    waiting = asyncio.create_task(asked(door, "reload", wait=True))
    event = await controlled.events.get()
    assert isinstance(event, ReloadAsked)
    server.answer(Answer(asker=event.asker, ok=False, text="not reloaded:\nTraceback ..."))
    assert await waiting == Reply(ok=False, text="not reloaded:\nTraceback ...")


async def test_a_reload_during_the_end_is_refused(door: Door, controlled: Controlled) -> None:
    controlled.stopping = True
    assert not (await asked(door, "reload")).ok
    assert controlled.events.empty()


async def test_a_stop_is_no_signal_and_may_be_waited_for(
    door: Door, server: ControlSocket, controlled: Controlled
) -> None:
    assert (await asked(door, "stop")).ok
    assert await controlled.events.get() == StopAsked(now_ms=1_000, is_signal=False)
    waiting = asyncio.create_task(asked(door, "stop", wait=True))
    await controlled.events.get()
    server.close("the supervisor has ended")
    assert await waiting == Reply(ok=True, text="the supervisor has ended")
    assert not door.path.exists()


async def test_the_end_fails_those_who_waited_for_something_else(
    door: Door, server: ControlSocket, controlled: Controlled
) -> None:
    waiting = asyncio.create_task(asked(door, "dump", number=0))
    await controlled.events.get()
    server.close()
    assert not (await waiting).ok


async def test_who_waits_hears_how_far_it_is(door: Door, server: ControlSocket, controlled: Controlled) -> None:
    said: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def heard(text: str) -> None:
        loop.call_soon_threadsafe(said.put_nowait, text)

    waiting = asyncio.create_task(asyncio.to_thread(door.ask, Request(command="reload", wait=True), heard))
    event = await controlled.events.get()
    assert isinstance(event, ReloadAsked)
    for _ in range(3):
        server.tell_progress()
    controlled.text = "reloading: 4/4 ready"
    server.tell_progress()
    assert [await said.get(), await said.get()] == ["4/4 ready", "reloading: 4/4 ready"]
    server.answer(Answer(asker=event.asker, ok=True, text="reloaded"))
    assert (await waiting).text == "reloaded"
    assert said.empty()


async def test_a_peer_that_went_away_changes_nothing(door: Door, server: ControlSocket, controlled: Controlled) -> None:
    async with connected(door.path) as (_, writer):
        writer.write(encoded(Request(command="restart", number=1)))
        event = await controlled.events.get()
    assert isinstance(event, RestartAsked)
    server.tell_progress()
    server.answer(Answer(asker=event.asker, ok=True, text="done"))
    assert (await asked(door, "version")).ok


async def test_one_that_ends_its_own_direction_is_answered(door: Door) -> None:
    async with connected(door.path) as (reader, writer):
        writer.write(encoded(Request(command="version")))
        writer.write_eof()
        assert reply_of(await reader.readline()) == Reply(ok=True, text="1.2.3")


# odd peers


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"hello\n", "no JSON"),
        (b"[]\n", "one JSON object"),
        (b"{}\n", "no command None"),
        (b'{"command":"explode"}\n', "no command 'explode'"),
        (b'{"command":["stop"]}\n', "no command"),
        (b'{"command":"scale"}\n', "needs a number (procs)"),
        (b'{"command":"dump","number":"0"}\n', "needs a number (slot)"),
        (b'{"command":"dump","number":true}\n', "needs a number (slot)"),
        (b"GET /status HTTP/1.1\r\n\r\n", "no JSON"),
        (b"\xff\xfe\n", "no JSON"),
        (b"x" * (MAX_REQUEST + 1), "longer than"),
        (b"x" * 1_000_000 + b"\n", "longer than"),
    ],
)
async def test_what_is_no_request_is_told_and_ends_that_peer_only(
    door: Door, controlled: Controlled, line: bytes, words: str
) -> None:
    async with connected(door.path) as (reader, writer):
        writer.write(line)
        reply = reply_of(await reader.readline())
        assert isinstance(reply, Reply)
        assert not reply.ok
        assert words in reply.text
    assert controlled.events.empty()
    assert (await asked(door, "version")).ok


async def test_half_a_message_has_a_deadline(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "_REQUEST_S", 0.1)
    async with connected(door.path) as (reader, writer), connected(door.path) as (silent, _):
        writer.write(b'{"command":"st')
        assert await reader.read() == b""
        assert await silent.read() == b""


async def test_a_second_request_on_a_connection_is_not_heard(door: Door, controlled: Controlled) -> None:
    async with connected(door.path) as (reader, writer):
        writer.write(encoded(Request(command="version")) + encoded(Request(command="stop")))
        assert reply_of(await reader.readline()) == Reply(ok=True, text="1.2.3")
        assert await reader.read() == b""
    assert controlled.events.empty()


async def test_the_oldest_silent_peer_goes_when_there_are_too_many(door: Door, controlled: Controlled) -> None:
    async with contextlib.AsyncExitStack() as stack:
        waiting = asyncio.create_task(asked(door, "dump", number=0))
        await controlled.events.get()
        silent = [await stack.enter_async_context(connected(door.path)) for _ in range(MAX_PEERS)]
        assert (await asked(door, "version")).ok
        assert await silent[0][0].read() == b""
        waiting.cancel()


async def test_when_all_places_are_waited_in_the_next_is_told(
    door: Door, server: ControlSocket, controlled: Controlled
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(MAX_PEERS):
            _, writer = await stack.enter_async_context(connected(door.path))
            writer.write(encoded(Request(command="dump", number=0)))
            await controlled.events.get()
        refused = await asked(door, "version")
        assert not refused.ok
        assert "try again later" in refused.text


FOREIGN = f"""
import contextlib, os, socket, sys
if os.geteuid() == 0:
    os.setgroups([])
    os.setuid(65534)
with socket.socket(socket.AF_UNIX) as peer:
    peer.connect(sys.argv[1])
    with contextlib.suppress(BrokenPipeError):  # refused before it has said what it wants
        peer.send(b'{{"command":"stop"}}\\n')
    print(peer.recv({MAX_REQUEST}).decode(), end="")
"""


async def test_another_user_is_refused_with_a_sentence(controlled: Controlled, monkeypatch: pytest.MonkeyPatch) -> None:
    """As root with a real process of another user, also when the permissions would let it in."""
    if os.geteuid() != 0:
        monkeypatch.setattr(control, "peer_uid", lambda _sock: os.geteuid() + 1)
    server = ControlSocket(controlled)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.sock")
        await server.open(path)
        for each, mode in ((path.parent, 0o755), (path, 0o666)):
            each.chmod(mode)
        command = [sys.executable, "-c", FOREIGN, str(path)]
        done = await asyncio.to_thread(subprocess.run, command, stdout=subprocess.PIPE, check=True)
        server.close()
    reply = reply_of(done.stdout)
    assert isinstance(reply, Reply)
    assert not reply.ok
    assert "may not control" in reply.text
    assert controlled.events.empty()


async def test_nobody_else_may_even_connect(door: Door) -> None:
    assert stat.S_IMODE(door.path.stat().st_mode) == 0o600


# the name and its socket


async def test_the_socket_of_a_crash_is_replaced(tmp_path: Path, controlled: Controlled) -> None:
    path = tmp_path / "default.sock"
    for leftover in (path, path.with_name("default.sock.new")):
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(leftover))
    door = Door(directory=tmp_path, name="default")
    with pytest.raises(NoSupervisor, match="no supervisor named 'default' runs here"):
        await asked(door, "version")
    server = ControlSocket(controlled)
    await server.open(path)
    assert (await asked(door, "version")).ok
    server.close()


async def test_a_long_path_is_reached_all_the_same(tmp_path: Path, controlled: Controlled) -> None:
    directory = tmp_path / ("d" * 120)
    directory.mkdir()
    server = ControlSocket(controlled)
    await server.open(directory / "default.sock")
    assert (await asked(Door(directory=directory, name="default"), "version")).ok
    server.close()


async def test_a_directory_that_is_gone_is_one_sentence(tmp_path: Path, controlled: Controlled) -> None:
    with pytest.raises(ConfigurationError, match=r"the control socket .* cannot be made"):
        await ControlSocket(controlled).open(tmp_path / "gone" / "default.sock")


HOLDER = """
import sys
from pathlib import Path
from pyrula_supervisor.naming import take_name
take_name(Path(sys.argv[1]), "default")
print("taken", flush=True)
input()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that has the name."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"taken\n"
        yield process
        process.kill()


def test_a_name_has_one_holder_and_dies_with_it(holder: subprocess.Popen[bytes], tmp_path: Path) -> None:
    assert is_taken(tmp_path, "default")
    assert not is_taken(tmp_path, "other")
    with pytest.raises(ConfigurationError, match=f"runs already: process {holder.pid}; stop that one"):
        take_name(tmp_path, "default")
    os.close(take_name(tmp_path, "other"))
    holder.kill()
    holder.wait()
    assert not is_taken(tmp_path, "default")
    os.close(take_name(tmp_path, "default"))


def test_a_holder_that_does_not_listen_is_told_apart(holder: subprocess.Popen[bytes], tmp_path: Path) -> None:
    with pytest.raises(NoSupervisor, match="does not listen"):
        Door(directory=tmp_path, name="default").ask(Request(command="status"))


def test_one_that_is_stopped_is_not_waited_for_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_SILENCE_S", 0.1)
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(tmp_path / "default.sock"))
        deaf.listen(1)
        with pytest.raises(NoSupervisor, match=r"silent for 0\.1 s"):
            Door(directory=tmp_path, name="default").ask(Request(command="status"))


# framing


def test_lines_are_cut_wherever_the_bytes_are() -> None:
    lines = Lines(10)
    found = [line for byte in b"one\ntwo\n\nthr" for line in lines.receive(bytes([byte]))]
    assert found == [b"one", b"two", b""]
    assert lines.receive(b"ee\n") == [b"three"]
    with pytest.raises(UsageError, match="longer than 10 bytes"):
        lines.receive(b"x" * 11)


def test_requests_and_replies_survive_the_way() -> None:
    request = Request(command="scale", wait=True, number=3)
    assert request_of(encoded(request)) == request
    reply = Reply(ok=True, text="two\nlines", document={"a": [1, None]})
    assert encoded(reply).count(b"\n") == 1
    assert reply_of(encoded(reply)) == reply
    assert reply_of(orjson.dumps({"progress": "1/4"})) == "1/4"
