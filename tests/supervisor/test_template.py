"""The template as a real process: what it refuses to fork and by what name, and what its forks are like."""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyrula.workflows import WorkflowClient
from pyrula_runtime import kernel, stacks
from pyrula_runtime.stores.opening import open_store
from pyrula_runtime.wire import CannotStart, Drain, Fork, Hello, Ready, Role, Start
from tests.supervisor.lines import LIMIT_S, Line, Lines, open_files, sockets_of, start_of

APP = '''
"""Workflows that tell what kind of process they are in."""
import gc, os, random, secrets, signal, sys, uuid
from pyrula.workflows import step, workflow

JITTER = random.Random()
TALE = []


def warm():
    TALE.append(f"warmed in {os.getpid()}")


def reseed():
    JITTER.seed()
    TALE.append(f"forked as {os.getpid()}")


@step
def look(pid: int) -> dict:
    return {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "group": os.getpgrp(),
        "environ": dict(os.environ),
        "mask": [int(each) for each in signal.pthread_sigmask(signal.SIG_BLOCK, ())],
        "collects": gc.isenabled(),
        "frozen": gc.get_freeze_count(),
        "tale": TALE,
        "chance": [random.random(), JITTER.random(), str(uuid.uuid1()), str(uuid.uuid4()), secrets.token_hex(8)],
        "numpy": getattr(sys.modules.get("numpy"), "SEEDED", None),
    }


@workflow
async def facts(ctx) -> dict:
    return await ctx.step(look, 1)
'''
NUMPY = """
SEEDED = 0
class random:
    @staticmethod
    def seed():
        global SEEDED
        SEEDED += 1
"""
SUBREAPER = 36


@pytest.fixture(autouse=True)
def adopting() -> Iterator[None]:
    """This process stands for the supervisor, to whom forked children fall."""
    assert kernel.adopt_descendants()
    yield
    ctypes.CDLL(None).prctl(SUBREAPER, 0, 0, 0, 0)


class Place:
    """A folder with an app in it, a store, and the processes started there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder}/s.db"
        self.lines = Lines(folder)
        self.store = open_store(self.url)
        self.client = WorkflowClient(self.store)

    def start(self, role: Role, name: str, **more: Any) -> Start:
        given: dict[str, Any] = {"store_url": self.url, "workflows": ("app",), "slot": 0}
        return start_of(role, name, **(given | more))

    def template(self, app: str = APP, environ: dict[str, str] | None = None, **more: Any) -> Line:
        """A template of this app; it has said nothing yet."""
        (self.folder / "app.py").write_text(app)
        return self.lines.spawn(self.start(Role.template, "template", **more), environ)

    async def ready(self, app: str = APP, **more: Any) -> Line:
        """A template that can fork."""
        template = self.template(app, **more)
        await template.told(Ready)
        return template

    async def worker(self, template: Line, name: str, **more: Any) -> Line:
        """A forked worker that serves."""
        worker = await self.lines.fork(template, self.start(Role.worker, name, **more))
        await worker.told(Ready)
        return worker

    async def result(self, workflow: str) -> Any:
        """What a run of this workflow returns."""
        return await (await self.client.submit(workflow)).result(timeout=LIMIT_S)

    def said(self) -> str:
        """What the template and its forks have written."""
        return self.lines.log_of("template").read_text()


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    made = Place(tmp_path)
    await made.store.open()
    yield made
    await made.lines.close()
    await made.store.close()


# forks


async def test_a_fork_is_a_clean_process_of_the_supervisors_own(place: Place) -> None:
    foreign = {"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "1", "LISTEN_FDS": "1", "KEPT": "yes"}
    template = await place.ready(environ=foreign, warmup="app:warm")
    worker = await place.worker(template, "one", after_fork="app:reseed")
    found = await place.result("facts")
    assert (found["pid"], found["parent"], found["group"]) == (worker.pid, os.getpid(), worker.pid)
    assert foreign.keys() & found["environ"].keys() == {"KEPT"}
    assert (found["mask"], found["collects"], found["frozen"] > 10_000) == ([], True, True)
    assert found["tale"] == [f"warmed in {template.pid}", f"forked as {worker.pid}"]


async def test_a_fork_has_no_descriptor_of_the_template_or_of_another_fork(place: Place) -> None:
    template = await place.ready()
    workers = [await place.worker(template, f"w{n}") for n in range(3)]
    own = [sockets_of(each.pid) for each in (template, *workers)]
    assert len(own[0]) == 1
    assert sum(map(len, own)) == len(set().union(*own))
    for worker in workers:
        files = set(open_files(worker.pid).values())
        assert not {each for each in files if each.endswith("template.stack") or each.startswith("pipe:")}


async def test_a_fork_hears_of_its_supervisors_end_though_the_template_lives(place: Place) -> None:
    template = await place.ready()
    worker = await place.worker(template, "one")
    worker.hang_up()
    assert await worker.ended() == 1
    await place.worker(template, "two")


async def test_two_forks_differ_in_everything_random(place: Place) -> None:
    (place.folder / "numpy.py").write_text(NUMPY)
    template = await place.ready("import numpy\n" + APP)
    found = []
    for name in ("one", "two"):
        worker = await place.worker(template, name, after_fork="app:reseed")
        found.append(await place.result("facts"))
        await worker.kill()
    assert found[0]["pid"] != found[1]["pid"]
    assert all(one != two for one, two in zip(found[0]["chance"], found[1]["chance"], strict=True))
    assert found[0]["numpy"] == 1


async def test_forks_live_on_without_their_template(place: Place) -> None:
    template = await place.ready()
    worker = await place.worker(template, "one")
    await template.kill()
    assert (await place.result("facts"))["pid"] == worker.pid
    worker.say(Drain())
    assert await worker.ended() == 0


@pytest.mark.parametrize("how", [Drain(), None])
async def test_a_template_leaves_when_it_is_told_or_when_nobody_is_there(place: Place, how: Drain | None) -> None:
    template = await place.ready()
    worker = await place.worker(template, "one")
    if how is None:
        template.hang_up()
    else:
        template.say(how)
    assert await template.ended() == 0
    assert not stacks.stack_path(place.folder / "run" / "pyrula", "template").exists()
    assert (await place.result("facts"))["pid"] == worker.pid


async def test_what_was_printed_before_the_fork_is_printed_once(place: Place) -> None:
    app = APP + "\nimport sys\nprint('imported', end='')\nsys.stderr.write('and warned')\n"
    template = await place.ready(app, environ={"PYTHONUNBUFFERED": ""})
    for name in ("one", "two"):
        worker = await place.worker(template, name)
        worker.say(Drain())
        assert await worker.ended() == 0
    assert (place.said().count("imported"), place.said().count("and warned")) == (1, 1)


@pytest.mark.parametrize("whose", ["==", "!="])
async def test_a_fork_that_fails_is_told_on_the_childs_line_and_the_template_stays(place: Place, whose: str) -> None:
    app = f"""{APP}
import errno
template, fork = os.getpid(), os.fork
def broken():
    if os.path.exists("full") and os.getpid() {whose} template:
        raise OSError(errno.EAGAIN, "no more processes")
    return fork()
os.fork = broken
"""
    full = place.folder / "full"
    full.touch()
    template = await place.ready(app)
    start = place.start(Role.worker, "one")
    line = place.lines.ask_fork(template, start)
    assert "could not fork" in (await line.told(CannotStart, incarnation="one", exit_code=1)).reason
    await line.hung_up()
    full.unlink()
    await place.worker(template, "two")


async def test_a_line_that_is_no_line_does_not_end_the_template(place: Place) -> None:
    template = await place.ready()
    template.say(Fork(start=place.start(Role.worker, "none")))  # without a descriptor
    template.ours.send(b"no message")
    await place.worker(template, "one")


# what is refused


async def refused(place: Place, app: str, **more: Any) -> CannotStart:
    template = place.template(app, **more)
    said = await template.told(CannotStart)
    assert await template.ended() == 78
    return said


async def test_an_import_error_is_told_with_the_apps_own_traceback(place: Place) -> None:
    said = await refused(place, "def settings():\n    raise KeyError('DATABASE')\nsettings()\n")
    assert (said.exit_code, said.unsafe_template) == (78, False)
    assert "cannot import 'app'" in said.reason
    assert "KeyError: 'DATABASE'" in said.traceback
    assert "line 2, in settings" in said.traceback
    assert "pyrula_runtime" not in said.traceback


@pytest.mark.parametrize(
    ("app", "more", "words"),
    [
        ("import sys; sys.exit('not today')", {}, "ended the process while it was imported: not today"),
        ("x = 1", {}, "registers no workflow"),
        (APP, {"workflows": ("ap",)}, "no module 'ap'; did you mean app?"),
        (APP, {"warmup": "app:wram"}, "no 'wram'; did you mean warm?"),
        (APP + "\ndef cold(): raise OSError('frozen')", {"warmup": "app:cold"}, "'app:cold' raised OSError: frozen"),
        (APP + "\nasync def later(): ...", {"warmup": "app:later"}, "plain function"),
        (APP, {"store_url": "mysql://x"}, "scheme 'mysql' is unknown"),
    ],
)
async def test_a_fault_of_the_set_up_is_told_in_a_sentence(
    place: Place, app: str, more: dict[str, Any], words: str
) -> None:
    said = await refused(place, app, **more)
    assert (words in said.reason, said.exit_code, said.unsafe_template) == (True, 78, False)


HAZARDS = {
    "a thread": (
        "import threading; threading.Thread(target=threading.Event().wait, daemon=True, name='pump').start()",
        "thread 'pump'",
    ),
    "a pool": (
        "from concurrent.futures import ThreadPoolExecutor; P = ThreadPoolExecutor(); P.submit(int)",
        "ThreadPoolExecutor",
    ),
    "a native thread": (
        "import _thread; L = _thread.allocate_lock(); L.acquire(); _thread.start_new_thread(L.acquire, ())",
        "a thread of native code",
    ),
    "a server": (
        "import socket; S = socket.create_server(('127.0.0.1', 0)); PORT = S.getsockname()[1]",
        "IP socket at 127.0.0.1:",
    ),
    "a connection": (
        "import socket; A = socket.create_server(('127.0.0.1', 0)); B = socket.create_connection(A.getsockname())",
        "IP socket to 127.0.0.1:",
    ),
    "a datagram socket": ("import socket; S = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)", "Unix socket"),
    "a pipe": ("import os; P = os.pipe()", "a pipe"),
    "a child": ("import subprocess; P = subprocess.Popen(['sleep', '60'], stdin=subprocess.DEVNULL)", "(sleep) runs"),
    "a loop": ("import asyncio; L = asyncio.new_event_loop()", "an event loop was made and not closed"),
    "a running loop": ("import asyncio; asyncio._set_running_loop(asyncio.new_event_loop())", "an event loop runs"),
    "a database": (
        "import sqlite3; D = sqlite3.connect('own.db'); D.execute('create table t (x)'); D.commit()",
        "own.db is open",
    ),
}


@pytest.mark.parametrize("what", HAZARDS)
async def test_what_cannot_be_forked_is_named(place: Place, what: str) -> None:
    code, words = HAZARDS[what]
    said = await refused(place, f"{APP}\n{code}\n")
    assert (said.unsafe_template, words in said.reason) == (True, True), said.reason
    assert "cannot be forked" in said.reason


HARMLESS = """
import asyncio, logging, subprocess, threading
from concurrent.futures import ThreadPoolExecutor
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

LOCK = threading.Lock()
POOL = ThreadPoolExecutor(2)
REDIS = redis.Redis(port=1, retry=Retry(NoBackoff(), 0))
LOG = logging.getLogger("app.file")
LOG.addHandler(logging.FileHandler("app.log"))
with ThreadPoolExecutor() as used:
    used.submit(int).result()
subprocess.run(["true"], check=True)
asyncio.run(asyncio.to_thread(int))


@step
def use() -> str:
    with LOCK:
        LOG.warning("used in %s", os.getpid())
        try:
            REDIS.ping()
        except redis.ConnectionError:
            return POOL.submit(str, "refused").result(10)


@workflow
async def uses(ctx) -> str:
    return await ctx.step(use)
"""


async def test_what_sleeps_in_the_module_works_in_a_fork(place: Place) -> None:
    template = await place.ready(APP + HARMLESS)
    for name in ("one", "two"):
        worker = await place.worker(template, name)
        assert await place.result("uses") == "refused"
        worker.say(Drain())
        assert await worker.ended() == 0
    assert (place.folder / "app.log").read_text().count("used in") == 2


async def test_an_import_that_hangs_shows_where(place: Place) -> None:
    os.mkfifo(place.folder / "peer")
    template = place.template(APP + "\ndef connect():\n    open('peer').read()\nconnect()\n")
    await template.told(Hello)
    async with asyncio.timeout(LIMIT_S):
        peer = await asyncio.to_thread(os.open, place.folder / "peer", os.O_WRONLY)  # returns when it is in connect
        path = stacks.stack_path(place.folder / "run" / "pyrula", "template")
        stack = await asyncio.to_thread(stacks.read, path, template.pid, template.pid)
    os.close(peer)
    assert re.search(r'app.py", line \d+ in connect', stack)
    template.send(signal.SIGTERM)
    assert await template.ended() == -signal.SIGTERM
