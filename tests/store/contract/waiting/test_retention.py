"""A child stays as long as its parent lives."""

from __future__ import annotations

from dataclasses import replace

from pyrula_runtime.core.status import TERMINAL
from pyrula_runtime.core.tree import OnEnd
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import ParentLink, Store
from tests.store.samples import COMPLETED, appending, new_run, request

AGE_MS = 60_000


async def test_a_child_stays_as_long_as_its_parent_lives(store: Store, clock: ManualClock) -> None:
    parent = new_run()
    link = ParentLink(run_id=parent.run_id, op_id="child#1", on_end=OnEnd.abandon)
    children = [replace(new_run(), parent=link) for _ in range(3)]
    await store.submit(parent)
    (first,) = await store.claim(request())
    for child in children:
        await store.submit(child)
    for claim in await store.claim(request()):
        await store.commit(appending(claim.token, 0, b"c", ending=COMPLETED))
    clock.move(AGE_MS)
    assert await store.drop_finished(TERMINAL, AGE_MS, 2) == 0
    assert [await store.read(child.run_id) is None for child in children] == [False] * 3
    await store.renew([first.token], AGE_MS)
    await store.commit(appending(first.token, 0, b"p", ending=COMPLETED))
    clock.move(AGE_MS)
    assert sum([await store.drop_finished(TERMINAL, AGE_MS, 2) for _ in range(3)]) == 4
    assert await store.read(parent.run_id) is None
