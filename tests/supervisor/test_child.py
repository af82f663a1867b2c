"""A supervised worker with the test as its supervisor: how it is born, what it says, and how it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pyrula.workflows import RunHandle, WorkflowClient
from pyrula_runtime import stacks
from pyrula_runtime.blackbox import Phase, read_box
from pyrula_runtime.blackbox.layout import box_path
from pyrula_runtime.core.blame import Cause, Mark, Record
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.codec import dossier_of
from pyrula_runtime.stores.opening import open_store
from pyrula_runtime.stores.protocol import ClaimRequest, Release, Serves, Store
from pyrula_runtime.wire import (
    Blocked,
    CannotStart,
    Drain,
    Dump,
    Evacuated,
    Hello,
    Ready,
    Report,
    Role,
    Stack,
    Unblocked,
)
from tests.supervisor.household import APP, stat_of
from tests.supervisor.lines import LIMIT_S, Line, Lines, environ_of, start_of

NAME = "0123456789abcdef"
HOOKS = (
    APP
    + """
def stamp():
    Path("hook").write_text(str(os.getpid()))

def fails():
    raise LookupError("no such licence")
"""
)


@pytest.fixture
async def lines(tmp_path: Path) -> AsyncIterator[Lines]:
    (tmp_path / "app.py").write_text(HOOKS)
    made = Lines(tmp_path)
    yield made
    await made.close()


def store_in(lines: Lines) -> str:
    return f"sqlite:///{lines.folder / 'store' / 'runs.db'}"


def spawned(lines: Lines, **changes: Any) -> Line:
    given: dict[str, Any] = {"role": Role.worker, "slot": 0, "workflows": ("app",), "worker_id": "w-0"} | changes
    role = given.pop("role")
    return lines.spawn(start_of(role, NAME, given.pop("store_url", store_in(lines)), **given))


async def serving(lines: Lines, **changes: Any) -> Line:
    line = spawned(lines, **changes)
    await line.told(Ready)
    return line


async def test_it_says_that_it_lives_what_it_serves_and_how_it_is(lines: Lines) -> None:
    line = spawned(lines)
    assert await line.told(Hello) == Hello(incarnation=NAME, pid=line.pid)
    assert await line.told(Ready) == Ready(incarnation=NAME, serves=("lane", "thread"))
    first = await line.told(Report)
    assert (first.turns_running, first.capacity, first.draining, first.store_ok) == (0, 50, False, True)
    async with WorkflowClient(open_store(store_in(lines))) as client:
        handle = await client.submit("lane", {"code": "pass"})
        assert await handle.result(timeout=LIMIT_S) == line.pid
    await line.told(Report, turns_done=1)
    line.say(Drain())
    await line.told(Report, draining=True)
    assert await line.ended() == 0


async def test_its_box_says_who_it_is_and_that_it_turns(lines: Lines) -> None:
    line = await serving(lines)
    path = box_path(lines.folder / "run" / "pyrula", NAME)
    await line.told(Report)
    first = read_box(path)
    await line.told(Report)
    await line.told(Report)
    second = read_box(path)
    assert first is not None
    assert second is not None
    assert (second.worker_id, second.pid, second.phase) == ("w-0", line.pid, Phase.ready)
    assert second.control_beat_ms is not None
    assert second.control_beat_ms > (first.control_beat_ms or 0)
    assert (second.lane_beat_ms or 0) > (first.lane_beat_ms or 0)
    assert str(second.lane_thread) in os.listdir(f"/proc/{line.pid}/task")
    line.say(Drain())
    assert await line.ended() == 0
    assert not path.exists()
    assert not stacks.stack_path(lines.folder / "run" / "pyrula", NAME).exists()


@pytest.mark.parametrize("asks", [("drain", "drain"), ("term", "term"), ("drain", "term")])
async def test_it_drains_as_often_as_it_is_told_to(lines: Lines, asks: tuple[str, ...]) -> None:
    line = await serving(lines)
    async with WorkflowClient(open_store(store_in(lines))) as client:
        code = "Path('begun').touch()\nwhile not Path('go').exists(): time.sleep(0.01)"
        handle = await client.submit("thread", {"code": code})
        await line.told(Report, turns_running=1)
        for ask in asks:
            if ask == "term":
                line.send(signal.SIGTERM)
            else:
                line.say(Drain())
            await line.told(Report, draining=True)
        (lines.folder / "go").touch()
        assert await handle.result(timeout=LIMIT_S) == line.pid
    assert await line.ended() == 0


async def test_told_to_leave_before_it_has_begun_it_just_leaves(lines: Lines) -> None:
    (lines.folder / "app.py").write_text("import time\ntime.sleep(1000)\n")
    line = spawned(lines)
    await line.told(Hello)
    line.send(signal.SIGTERM)
    assert await line.ended() == 0


async def test_a_drain_that_came_during_the_import_counts(lines: Lines) -> None:
    line = spawned(lines)
    line.say(Drain())
    assert await line.ended() == 0


@pytest.mark.parametrize("state", ["at work", "idle"])
async def test_without_a_supervisor_it_is_gone(lines: Lines, state: str) -> None:
    line = await serving(lines)
    if state == "at work":
        async with WorkflowClient(open_store(store_in(lines))) as client:
            await client.submit("thread", {"code": "time.sleep(1000)"})
            await line.told(Report, turns_running=1)
    line.hang_up()
    assert await line.ended() == 1


FAULTS = {
    "import": ("raise LookupError('no such table')", "LookupError: no such table"),
    "nothing": ("x = 1", "registers no workflow"),
    "exit": ("raise SystemExit(3)", "the app ended the process while it was imported: 3"),
    "syntax": ("def broken(:", "SyntaxError"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_an_app_that_cannot_be_had_is_told_with_its_traceback(lines: Lines, fault: str) -> None:
    source, reason = FAULTS[fault]
    (lines.folder / "app.py").write_text(source)
    line = spawned(lines)
    told = await line.told(CannotStart)
    assert reason in told.reason
    assert (told.exit_code, told.unsafe_template) == (78, False)
    assert ("LookupError" in told.traceback) == (fault == "import")
    assert await line.ended() == 78


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"store_url": "postgres://x"}, "store URL scheme 'postgres' is unknown"),
        ({"options": {"lock_ttl": -1}}, "lock_ttl"),
        ({"workflows": ("app:missing",)}, "has no 'missing'"),
        ({"after_fork": "app:fails"}, "after_fork 'app:fails' raised LookupError: no such licence"),
        ({"after_fork": "app:nothing"}, "nothing"),
    ],
)
async def test_a_wrong_start_is_told(lines: Lines, changes: dict[str, Any], reason: str) -> None:
    line = spawned(lines, **changes)
    assert reason in (await line.told(CannotStart)).reason
    assert await line.ended() == 78


async def test_the_hook_runs_in_the_process_before_it_serves(lines: Lines) -> None:
    line = await serving(lines, after_fork="app:stamp")
    assert (lines.folder / "hook").read_text() == str(line.pid)


async def test_a_cell_takes_one_suspect_and_leaves_when_its_turn_is_over(lines: Lines) -> None:
    store = open_store(store_in(lines))
    async with WorkflowClient(store) as client:
        ordinary = await client.submit("lane", {"code": "pass"})
        suspects = [await made_suspect(client, store) for _ in range(2)]
        line = await serving(lines, role=Role.cell)
        assert (await line.told(Report)).capacity == 1
        assert await line.ended() == 0
        statuses = [await handle.status() for handle in (*suspects, ordinary)]
        assert sorted(statuses) == [RunStatus.completed, RunStatus.queued, RunStatus.queued]
        assert statuses[2] is RunStatus.queued
        (done,) = [handle for handle in suspects if await handle.status() is RunStatus.completed]
        record = await store.read(done.run_id)
        assert record is not None
        assert not record.dossier.is_suspect


async def made_suspect(client: WorkflowClient, store: Store) -> RunHandle[Any]:
    """A run that was executing when a worker died."""
    handle = await client.submit("lane", {"code": "pass"})
    request = ClaimRequest(
        incarnation="dead",
        serves=(Serves(workflow="lane", version=None),),
        limit=10,
        lock_ttl_ms=60_000,
        to_status=RunStatus.running,
    )
    for claim in await store.claim(request):
        is_ours = claim.token.run_id == handle.run_id
        mark = Mark(at_ms=time.time_ns() // 1_000_000, cause=Cause.killed, worker="dead", executing=True)
        dossier = dossier_of(Record(marks=(mark,), is_suspect=True)) if is_ours else None
        await store.release(Release(token=claim.token, status=RunStatus.queued, ready=True, dossier=dossier))
    return handle


async def test_its_box_says_what_it_was_started_as(lines: Lines) -> None:
    line = await serving(lines, role=Role.surge)
    box = read_box(box_path(lines.folder / "run" / "pyrula", NAME))
    assert box is not None
    assert box.role == "surge"
    line.say(Drain())
    assert await line.ended() == 0


async def test_it_says_which_workflows_may_keep_the_lane_for_longer_than_usual(lines: Lines) -> None:
    source = "from pyrula.workflows import workflow\n"
    for name, timeout_s in (("short", 2), ("long", 5), ("usual", None)):
        source += f"@workflow(timeout={timeout_s})\nasync def {name}(ctx) -> None: ...\n"
    (lines.folder / "app.py").write_text(source)
    options = {"lock_ttl": 1.0, "block_warn": 0.2, "replace_after": 0.4}
    told = await spawned(lines, options=options).told(Ready)
    assert told.limits_ms == {"long": 5_000}


async def test_a_stuck_lane_is_emptied_and_that_is_told(lines: Lines) -> None:
    options = {"lock_ttl": 1.0, "block_warn": 0.2, "replace_after": 0.3, "evacuate_after": 0.5}
    line = await serving(lines, options=options)
    async with WorkflowClient(open_store(store_in(lines))) as client:
        await client.submit("thread", {"code": "while not Path('go').exists(): time.sleep(0.01)"})
        await line.told(Report, turns_running=1)
        blocker = await client.submit("lane", {"code": "while not Path('go').exists(): time.sleep(0.01)"})
        told = await line.told(Blocked)
        assert (told.run_id, told.op_id) == (blocker.run_id, "on_lane#1")
        assert "in a plain def step" in told.hint
        assert len((await line.told(Evacuated)).run_ids) == 1
        (lines.folder / "go").touch()
        assert await blocker.result(timeout=LIMIT_S) == line.pid


async def test_a_blocked_lane_is_told_at_once_and_shows_its_stack(lines: Lines) -> None:
    line = await serving(lines, options={"block_warn": 0.2})
    async with WorkflowClient(open_store(store_in(lines))) as client:
        handle = await client.submit("lane", {"code": "while not Path('go').exists(): time.sleep(0.01)"})
        told = await line.told(Blocked)
        assert (told.run_id, told.workflow, told.step, told.gil_held) == (handle.run_id, "lane", "on_lane", False)
        assert told.for_s >= 0.2
        assert "app.py" in told.stack
        line.say(Dump())
        assert "on_lane" in (await line.told(Stack)).text
        assert (await line.told(Report)).lane_lag_ms >= 200
        (lines.folder / "go").touch()
        assert (await line.told(Unblocked)).after_s >= 0.2
        await handle.result(timeout=LIMIT_S)


async def test_a_line_that_nobody_reads_blocks_nobody(lines: Lines) -> None:
    line = await serving(lines)
    line.say(Dump())
    # each answer is some kilobytes, so the line is full long before all of them are
    for _ in range(500):
        try:
            line.say(Dump())
        except BlockingIOError:
            await asyncio.sleep(0)
    async with WorkflowClient(open_store(store_in(lines))) as client:
        handle = await client.submit("lane", {"code": "pass"})
        assert await handle.result(timeout=LIMIT_S) == line.pid
    assert stat_of(line.pid) in ("S", "R")


def test_without_a_supervisor_the_command_says_so(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pyrula_runtime.child", "0"],
            env=environ_of(tmp_path),
            stdin=reader,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    finally:
        os.close(reader)
        os.close(writer)
    assert done.returncode == 1
    assert done.stderr.startswith("pyrula worker: this command is for supervisors")
    assert "Traceback" not in done.stderr
