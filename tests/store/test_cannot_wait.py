"""A store that cannot wait yet says so; one that can must not stand on the list of those that cannot."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import DUE, RunStatus
from pyrula_runtime.stores.protocol import Amendment, DeliverTo, Ending, Release, RunQuery, Store, Wait
from tests.store.samples import appending, message, new_run
from tests.store.sites import CANNOT_WAIT, SITES

# a cluster is six processes: one for the whole suite is enough
KINDS = [
    pytest.param(kind, marks=[pytest.mark.xdist_group(kind)] if kind == "cluster" else [])
    for kind in sorted(CANNOT_WAIT)
]


@pytest.mark.parametrize("kind", KINDS)
async def test_it_refuses_in_a_sentence(kind: str, tmp_path: Path) -> None:
    site = SITES[kind](tmp_path)
    store = await site.open()
    with pytest.raises(UsageError, match="cannot wake runs at a time yet"):
        await store.wake_due(DUE, 1)
    await site.close()


TOKEN = Token(run_id="run-1", fence=1, nonce="n")
WAIT = Wait(due_ms=5, inbox_seen=0, wake_status=RunStatus.queued)
EFFECTS = (DeliverTo(message=message("run-2"), moves={}),)
ASKED: dict[str, Callable[[Store], Awaitable[object]]] = {
    "order runs by priority": lambda store: store.submit(replace(new_run(), priority=1)),
    "start a run later": lambda store: store.submit(replace(new_run(), start_at_ms=0)),
    "let a run wait": lambda store: store.commit(
        appending(TOKEN, 0, ending=Ending(status=RunStatus.waiting, wait=WAIT))
    ),
    "let a run go on as new": lambda store: store.commit(
        appending(TOKEN, 0, ending=Ending(status=RunStatus.queued, again=b""))
    ),
    "give messages to a run": lambda store: store.commit(replace(appending(TOKEN, 0, b"x"), consumed=(1,))),
    "let a release strike other runs": lambda store: store.release(
        Release(token=TOKEN, status=RunStatus.queued, ready=True, effects=EFFECTS)
    ),
    "let an amendment strike other runs": lambda store: store.amend(Amendment(run_id="run-1", rev=1, effects=EFFECTS)),
    "list the children of a run": lambda store: store.find(RunQuery(parent="run-1")),
}


@pytest.mark.parametrize("what", ASKED)
async def test_what_it_cannot_do_it_does_not_ignore(what: str, tmp_path: Path) -> None:
    site = SITES["valkey"](tmp_path)
    store = await site.open()
    with pytest.raises(UsageError, match=f"cannot {what} yet"):
        await ASKED[what](store)
    await site.close()
