"""What the crew hears of a process in which order, and what it makes of it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from pyrula_runtime import packets
from pyrula_runtime.wire import Hello, Ready, Role, encode
from pyrula_supervisor.actions import Spawn
from pyrula_supervisor.crew import Calling, Crew, _Member
from pyrula_supervisor.events import Event, Exited, Said, Spawned
from pyrula_supervisor.links import Link
from pyrula_supervisor.processes import Death


class Watching:
    """A shell whose loop minds, as the real one does, when it is to watch no more what is closed already."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def now_ms(self) -> int:
        return 1

    def put(self, event: Event) -> None:
        self.events.append(event)

    def watch(self, link: Link, incarnation: str) -> None:
        assert link.fileno() >= 0

    def unwatch(self, link: Link) -> None:
        assert link.fileno() >= 0


def forked(crew: Crew, name: str) -> socket.socket:
    """The far end of the line to a fork that a template was asked for."""
    template = _Member(spawn=Spawn(incarnation="template", role=Role.template, slot=-1, generation=1), link=Link())
    crew._members["template"] = template
    crew.spawn(Spawn(incarnation=name, role=Role.worker, slot=0, generation=1, by_template="template"))
    asked = packets.receive(template.link.far_end)
    assert asked is not None
    return socket.socket(fileno=asked.fds[0])


def test_a_fork_that_was_dead_before_its_first_words_were_read_costs_nobody_his_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = Watching()
    crew = Crew(
        Calling(name="s", worker_id="w", workflows=(), store_url="", runtime_dir=tmp_path, environ={}),
        shell,
    )
    monkeypatch.setattr(
        crew._processes, "adopt", lambda name, pid: Death(incarnation=name, pid=pid, status=7, max_rss_bytes=0)
    )
    with forked(crew, "fork") as line:
        packets.send(line, encode(Hello(incarnation="fork", pid=os.getpid())), [])
        packets.send(line, encode(Ready(incarnation="fork", note="")), [])
        events = [*crew.read("fork")]
    crew.close()
    assert [type(event) for event in shell.events] == [Spawned]
    assert [type(event) for event in events] == [Said, Exited, Said]
