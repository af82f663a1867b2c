"""A stuck lane that is emptied: the others go, unwind before any of their code runs again, and leave no trace."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from pyrula_runtime.core.entries import Json, Op
from pyrula_runtime.core.errors import TurnSuspended
from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.coming import Coming
from pyrula_runtime.engine.program import Operations, Program
from pyrula_runtime.stores.protocol import Release
from tests.engine.fake_host import FakeHost, Ops
from tests.engine.lanes import LIMIT_S, LaneAtWork, lane_at_work, same, step

Body = Callable[[Operations], Awaitable[Any]]


def program(name: str, body: Body) -> Program:
    def start(operations: Operations, _input: Json) -> Coroutine[Any, Any, Any]:
        async def run() -> Any:
            return await body(operations)

        return run()

    return Program(name=name, version=None, start=start, to_json=same)


class Scene:
    """A run that keeps the lane until it is let go, and one whose code is due again at every turn of the loop."""

    def __init__(self) -> None:
        self.blocks, self.gate = threading.Event(), threading.Event()
        self.turns = 0
        self.unwound: list[str] = []
        self.programs = [program("blocker", self._blocker), program("busy", self._busy)]

    async def _blocker(self, operations: Operations) -> str:
        await operations.ask(step(self.block))
        return "done"

    async def block(self) -> None:
        self.blocks.set()
        self.gate.wait(LIMIT_S)

    async def _busy(self, operations: Operations) -> None:
        try:
            await operations.ask(step(self.spin))
        except BaseException as error:
            self.unwound.append(type(error).__name__)
            raise

    async def spin(self) -> None:
        try:
            while True:
                self.turns += 1
                await asyncio.sleep(0)
        except BaseException as error:
            self.unwound.append(type(error).__name__)
            raise

    async def stuck(self, at_work: LaneAtWork) -> tuple[str, str]:
        """Both runs at work, the lane in the first one's code; no last commit claims what goes."""
        at_work.lanes._commons.no_successors.set()
        busy = await at_work.submit("busy")
        await at_work.claim()
        blocker = await at_work.submit("blocker")
        await at_work.claim()
        assert await asyncio.to_thread(self.blocks.wait, LIMIT_S)
        return blocker, busy


async def release(at_work: LaneAtWork, tokens: list[Token]) -> None:
    for token in tokens:
        assert await at_work.store.release(Release(token=token, status=RunStatus.queued, ready=True))


async def test_the_others_go_and_unwind_before_their_code_runs_again(tmp_path: Path) -> None:
    scene = Scene()
    async with lane_at_work(tmp_path, scene.programs) as at_work:
        blocker, busy = await scene.stuck(at_work)
        tokens = at_work.lanes.condemn(blocker)
        assert [token.run_id for token in tokens] == [busy]
        assert [token.run_id for token in at_work.lanes.held()] == [blocker]
        await release(at_work, tokens)
        turns = scene.turns
        scene.gate.set()
        assert (await at_work.until_ended(blocker)).result == b'"done"'
        await asyncio.to_thread(at_work.freed.get, timeout=LIMIT_S)
        await asyncio.to_thread(at_work.freed.get, timeout=LIMIT_S)
        assert at_work.setup.slots.in_use == 0
        assert scene.turns == turns
        assert sorted(scene.unwound) == ["CancelledError", "TurnSuspended"]
        record = await at_work.store.read(busy)
        assert record is not None
        assert (record.status, record.journal_len) == (RunStatus.queued, 0)


async def test_whose_code_nobody_knows_is_condemned_with_the_others(tmp_path: Path) -> None:
    scene = Scene()
    async with lane_at_work(tmp_path, scene.programs) as at_work:
        blocker, busy = await scene.stuck(at_work)
        tokens = at_work.lanes.condemn()
        assert {token.run_id for token in tokens} == {blocker, busy}
        assert at_work.lanes.held() == []
        await release(at_work, tokens)
        assert at_work.lanes.condemn() == []
        scene.gate.set()
        for _ in tokens:
            await asyncio.to_thread(at_work.freed.get, timeout=LIMIT_S)
        assert at_work.setup.slots.in_use == 0
        for run_id in (blocker, busy):
            record = await at_work.store.read(run_id)
            assert record is not None
            assert (record.status, record.journal_len) == (RunStatus.queued, 0)


async def test_a_claim_that_has_not_begun_goes_and_never_begins(tmp_path: Path) -> None:
    scene = Scene()
    async with lane_at_work(tmp_path, scene.programs) as at_work:
        blocker, _ = await scene.stuck(at_work)
        late = await at_work.submit("busy")
        await at_work.claim()
        turns = scene.turns
        tokens = at_work.lanes.condemn(blocker)
        assert late in [token.run_id for token in tokens]
        await release(at_work, tokens)
        scene.gate.set()
        for _ in range(3):
            await asyncio.to_thread(at_work.freed.get, timeout=LIMIT_S)
        assert scene.turns == turns
        assert at_work.setup.slots.in_use == 0


async def test_a_body_that_was_to_go_on_does_not() -> None:
    """The order to unwind is obeyed at the very moment at which an outcome was to enter."""
    seen: list[BaseException] = []

    async def body(ops: Ops) -> None:
        try:
            await ops.step("a")
        except BaseException as error:
            seen.append(error)
            raise
        seen.append(AssertionError("its code ran"))

    host = FakeHost()
    turn = host.turn(body)
    deliver = turn._body.deliver

    def obey_first(op: Op, value: object, error: BaseException | None) -> None:
        turn.suspend()
        deliver(op, value, error)

    turn._body.deliver = obey_first  # type: ignore[method-assign]
    host.complete("a#1", 1)
    assert [type(error) for error in seen] == [TurnSuspended]
    assert host.commits == []
    assert turn.is_over


@pytest.mark.parametrize("act", ["start", "strike"])
async def test_a_body_that_was_suspended_first_neither_begins_nor_is_struck(act: str) -> None:
    ran: list[str] = []

    async def body(ops: Ops) -> None:
        ran.append("body")
        await ops.step("a")

    host = FakeHost()
    turn = host.turn(body)
    ran.clear()
    turn.suspend()
    getattr(turn._body, act)()
    assert ran == []


def token(name: str = "r") -> Token:
    return Token(run_id=name, fence=1, nonce="n")


def test_one_thread_alone_decides_about_a_claim() -> None:
    coming = Coming()
    coming.add([token()])
    assert coming.begin(token())
    assert not coming.withdraw(token())
    assert coming.held() == [token()]
    coming.done(token())
    coming.add([token("s")])
    assert coming.withdraw(token("s"))
    assert not coming.begin(token("s"))
    assert not coming.is_wanted(token("s"))
    assert coming.held() == []


def test_a_forsworn_claim_does_not_begin_when_it_comes() -> None:
    coming = Coming()
    assert coming.forswear(token())
    coming.add([token()])
    assert not coming.is_wanted(token())
    coming.done(token())
    coming.add([token("s")])
    assert not coming.forswear(token("s"))
    assert coming.begin(token("s"))


def test_a_claim_whose_journal_is_being_read_waits_for_no_lane() -> None:
    coming = Coming()
    coming.add([token(), token("s")])
    coming.seen(token())
    coming.withdraw(token("s"))
    assert not coming.unseen(0)
    assert coming.undecided() == [token()]
    assert token() in coming
    coming.add([token("t")])
    assert coming.unseen(0)
    assert not coming.unseen(1000)
