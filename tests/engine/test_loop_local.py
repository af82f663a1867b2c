"""One object for each event loop, and only where there is one."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from typing import Any

import pytest

from pyrula.workflows import UsageError, lane_local
from pyrula_runtime.engine.body_loop import BodyLoop
from pyrula_runtime.engine.loop_local import close_all_of


class Thing:
    """What a factory makes."""


def test_each_loop_has_one_also_at_the_same_time() -> None:
    local = lane_local(Thing)
    meeting = threading.Barrier(8, timeout=10)
    seen: list[Thing] = []

    async def use() -> None:
        meeting.wait()
        thing = local()
        await asyncio.sleep(0)
        assert local() is thing
        seen.append(thing)

    threads = [threading.Thread(target=asyncio.run, args=(use(),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == 8


def test_two_of_them_are_two() -> None:
    one, other = lane_local(Thing), lane_local(Thing)

    async def use() -> bool:
        return one() is not other()

    assert asyncio.run(use())


def test_a_loop_that_goes_takes_them_with_it() -> None:
    local = lane_local(Thing)

    class Client(Thing):
        def __init__(self) -> None:
            self.loop = asyncio.get_running_loop()  # as real ones do

    own = lane_local(Client)

    async def use() -> tuple[weakref.ref[Thing], weakref.ref[Thing]]:
        return weakref.ref(local()), weakref.ref(own())

    refs = asyncio.run(use())
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


def test_it_is_made_anew_after_it_was_closed() -> None:
    local = lane_local(Thing)

    async def use() -> bool:
        first = local()
        await close_all_of(asyncio.get_running_loop())
        return local() is not first

    assert asyncio.run(use())


def test_a_factory_that_fails_makes_nothing() -> None:
    tries: list[int] = []

    def make() -> Thing:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("no")
        return Thing()

    local = lane_local(make)

    async def use() -> Thing:
        with pytest.raises(OSError, match="no"):
            local()
        return local()

    assert isinstance(asyncio.run(use()), Thing)


def test_where_no_loop_runs_there_is_none() -> None:
    with pytest.raises(UsageError, match=r"lane_local\(Thing\) was called where no event loop runs"):
        lane_local(Thing)()


def test_the_loop_of_a_body_is_none_to_belong_to() -> None:
    local, said = lane_local(Thing), []
    body = BodyLoop()

    async def flow() -> None:
        try:
            local()
        except UsageError as error:
            said.append(str(error))

    root = body.create_root(flow())
    body.drain()
    assert root.done()
    body.close()
    assert "call it in an async step" in said[0]


async def made_with_await() -> Thing:
    return Thing()


@pytest.mark.parametrize(
    ("factory", "reason"),
    [
        (made_with_await, "takes a plain function that makes the object"),
        (Thing(), "takes a function that makes the object, not <.*Thing object .*> itself"),
    ],
)
def test_what_is_no_factory_is_refused(factory: Any, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        lane_local(factory)
