"""Each invariant catches a history that breaks it, made by hand to break one thing; a sound history passes."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pyrula_runtime.core.errors import StoreUnavailable, UsageError
from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.stores import protocol as p
from pyrula_runtime.stores.opening import open_store
from tests.faults.check_history import INVARIANTS, check, history_of
from tests.faults.history import Call, FinalRun, final_runs, load, recorded

Made = list[Call]


def call(at: float, verb: str, given: dict[str, Any], answer: dict[str, Any] | None, *, proc: str = "a") -> Call:
    """A call that takes a tenth of a second; without an answer it is unknown."""
    if answer is None:
        return Call(proc=proc, verb=verb, given=given, began=at)
    return Call(proc=proc, verb=verb, given=given, began=at, ended=at + 0.1, outcome="ok", answer=answer)


def submit(at: float, run: str = "r", *, key: str | None = None, answers: str | None = None, **more: Any) -> Call:
    given = {"run": run, "key": key, "digest": more.get("digest", "d")}
    return call(at, "submit", given, {"run": answers or run, "became": more.get("became", "created")})


def claim(at: float, fence: int, *journal: str, nonce: str = "n") -> Call:
    claimed = {"run": "r", "fence": fence, "nonce": nonce, "length": len(journal), "journal": list(journal)}
    return call(at, "claim", {"by": "a", "limit": 1}, {"claims": [claimed]})


def commit(at: float, fence: int, start: int, *entries: str, **more: Any) -> Call:
    given = {"run": "r", "fence": fence, "nonce": "n", "at": start, "entries": list(entries), "ending": None}
    append = more.pop("append", "done")
    answer = {"append": append, "length": start + len(entries), "claims": []}
    return call(at, "commit", given | more, answer)


def release(at: float, fence: int) -> Call:
    return call(at, "release", {"run": "r", "fence": fence, "nonce": "n", "status": "queued"}, {"done": True})


def renew(at: float, fence: int, *, lost: bool = False) -> Call:
    tokens = [{"run": "r", "fence": fence, "nonce": "n"}]
    return call(at, "renew", {"tokens": tokens}, {"lost": ["r"] if lost else [], "cancelled": []})


def read(at: float, status: str, length: int = 0, fence: int = 1) -> Call:
    return call(at, "read", {"run": "r"}, {"run": "r", "status": status, "length": length, "fence": fence})


def amend(at: float, status: str | None) -> Call:
    given = {"run": "r", "rev": 1, "status": status, "cancel": None, "entries": [], "at": 0}
    return call(at, "amend", given, {"done": True})


def final(*journal: str, status: str = "completed", **more: Any) -> FinalRun:
    told: dict[str, Any] = {"run_id": "r", "fence": 1, "held": False} | more
    return FinalRun(status=status, journal=journal, **told)


SOUND: Made = [
    submit(0, key="k"),
    submit(0.5, "s", key="k", answers="r", became="existing"),
    claim(1, 1),
    commit(2, 1, 0, "x"),
    renew(2.5, 1),
    claim(3, 2, "x", nonce="m"),
    commit(4, 1, 1, "y", append="fenced"),
    renew(4.5, 1, lost=True),
    commit(5, 2, 1, "y", "z", ending="completed"),
    commit(6, 2, 1, "y", "z", ending="completed", append="duplicate"),
    read(7, "completed", 3, 2),
]
SOUND_END = final("x", "y", "z", fence=2)

GUILTY = frozenset({"g"})

BREACHES: list[tuple[str, Made, Sequence[FinalRun]]] = [
    ("i1", [submit(0)], []),
    ("i2", [submit(0, "r", key="k"), submit(1, "s", key="k")], [final(), final(run_id="s")]),
    ("i2", [submit(0, key="k"), submit(1, key="k", answers="q", became="existing")], [final(), final(run_id="q")]),
    ("i2", [submit(0, key="k"), submit(1, key="k", digest="e", became="existing")], [final()]),
    ("i2", [submit(0, key="k"), submit(1, key="k", became="conflict")], [final()]),
    ("i3", [claim(0, 1, nonce="m"), claim(1, 1)], [final()]),
    ("i3", [claim(0, 2), claim(1, 1)], [final(fence=2)]),
    ("i3", [claim(0, 1), claim(1, 3)], [final(fence=2)]),
    ("i4", [commit(0, 1, 0, "x")], [final("y")]),
    ("i4", [claim(0, 1, "x"), claim(1, 2, "y")], []),
    ("i4", [commit(0, 1, 0, "x"), read(1, "running", 0)], [final("x")]),
    ("i5", [commit(0, 1, 0, "x", "y")], [final("x")]),
    ("i5", [commit(0, 1, 0, "x", append="duplicate")], [final()]),
    ("i6", [claim(0, 1), claim(1, 2), commit(2, 1, 0, "x")], [final("x", fence=2)]),
    ("i6", [claim(0, 1), release(1, 1), commit(2, 1, 0, "x")], [final("x")]),
    ("i6", [commit(0, 1, 0, "x", ending="waiting"), commit(1, 1, 1, "y")], [final("x", "y")]),
    ("i6", [commit(0, 2, 0, "x"), commit(0.05, 1, 1, "y")], [final("x", "y", fence=2)]),
    ("i6", [claim(0, 1), claim(1, 2), renew(2, 1)], [final(fence=2)]),
    ("i6", [claim(0, 1), release(1, 1), renew(2, 1)], [final()]),
    ("i7", [commit(0, 1, 0, ending="completed"), commit(0.05, 1, 0, ending="failed")], [final()]),
    ("i7", [commit(0, 1, 0, ending="completed"), amend(1, "cancelled")], [final()]),
    ("i7", [read(0, "completed"), read(1, "running")], [final()]),
    ("i7", [read(0, "completed")], [final(status="failed")]),
    ("i11", [], [final(held=True)]),
    ("i12", [], [final(charges=1)]),
    ("i12", [], [final(run_id="g", status="quarantined", charges=4), final(charges=1)]),
    ("i13", [], [final(status="quarantined")]),
    ("i13", [], [final(run_id="g", status="completed", charges=3)]),
    ("i13", [], [final(run_id="g", status="failed")]),
    ("i14", [], [final(status="queued")]),
    ("i14", [commit(90, 1, 0, ending="completed")], [final()]),
]


def breaches(calls: Made, finals: Sequence[FinalRun]) -> set[str]:
    guilty = GUILTY & {run.run_id for run in finals}
    return {line.split("_")[0] for line in check(history_of(calls, finals, calm_s=50, bound_s=10, guilty=guilty))}


def test_a_sound_history_passes() -> None:
    assert check(history_of(SOUND, [SOUND_END], calm_s=0, bound_s=10)) == []


@pytest.mark.parametrize(("invariant", "calls", "finals"), BREACHES)
def test_a_breach_is_caught(invariant: str, calls: Made, finals: Sequence[FinalRun]) -> None:
    assert invariant in breaches(calls, finals)


def test_the_guilty_may_be_charged_and_have_to_be_out() -> None:
    out = final(run_id="g", status="quarantined", charges=4)
    assert check(history_of(SOUND, [SOUND_END, out], calm_s=0, bound_s=10, guilty=GUILTY)) == []
    assert check(history_of(SOUND, [SOUND_END], calm_s=0, bound_s=10, guilty=GUILTY)) == [
        "i13_the_guilty_are_out_and_nobody_else: run g is guilty and gone"
    ]


def test_every_invariant_has_a_breach() -> None:
    assert {invariant.__name__.split("_")[0] for invariant in INVARIANTS} == {name for name, _, _ in BREACHES}


def unknown(made: Call) -> Call:
    return Call(proc=made.proc, verb=made.verb, given=made.given, began=made.began)


@pytest.mark.parametrize(
    ("calls", "finals"),
    [
        ([unknown(submit(0))], []),
        ([unknown(submit(0))], [final()]),
        ([unknown(commit(0, 1, 0, "x"))], [final()]),
        ([unknown(commit(0, 1, 0, "x"))], [final("x")]),
        ([claim(0, 2), unknown(commit(1, 1, 0, "x"))], [final("y", fence=2)]),
        ([read(0, "failed"), unknown(amend(1, "queued")), read(2, "queued")], [final()]),
        ([claim(0.0, 2), claim(0.05, 1)], [final(fence=2)]),  # they overlap
    ],
)
def test_what_is_unknown_or_overlaps_may_have_happened_or_not(calls: Made, finals: Sequence[FinalRun]) -> None:
    assert check(history_of(calls, finals)) == []


def test_a_requeue_revives_a_run_and_lets_it_end_once_more() -> None:
    ends = [
        commit(0, 1, 0, ending="failed"),
        amend(1, "queued"),
        read(2, "queued"),
        commit(3, 2, 0, ending="completed"),
    ]
    assert check(history_of(ends, [final(fence=2)])) == []


class Lossy:
    """A store whose next answer is replaced by an error."""

    def __init__(self, store: p.Store) -> None:
        self.store = store
        self.error: Exception | None = None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def act(*args: Any) -> Any:
            answer = await getattr(self.store, name)(*args)
            error, self.error = self.error, None
            if error is not None:
                raise error
            return answer

        return act


async def test_the_recorder_writes_what_callers_saw(tmp_path: Path) -> None:
    inner = Lossy(open_store(f"sqlite:///{tmp_path}/store.db"))
    store = recorded(inner, tmp_path / "history", "p")  # type: ignore[arg-type]  # a store by its behaviour
    await store.open()
    status = RunStatus.queued
    run = p.NewRun(run_id="r", workflow="w", version=None, input=b"{}", digest="d", status=status, idempotency_key="k")
    inner.error = StoreUnavailable("lost")
    with pytest.raises(StoreUnavailable):
        await store.submit(run)
    await store.submit(run)
    serves = (p.Serves(workflow="w", version=None),)
    request = p.ClaimRequest(incarnation="i", serves=serves, limit=1, lock_ttl_ms=9_000, to_status=RunStatus.running)
    (taken,) = await store.claim(request)
    ending = p.Ending(status=RunStatus.completed, result=b"1")
    wanted = p.Commit(token=taken.token, expected_len=0, entries=(b"x",), lock_ttl_ms=9_000, ending=ending)
    await store.commit(wanted)
    inner.error = UsageError("no")
    with pytest.raises(UsageError):
        await store.release(p.Release(token=Token(run_id="r", fence=9, nonce="?"), status=status, ready=True))
    await store.read("r")
    calls = load([tmp_path / "history"])
    ends = await final_runs(inner.store)
    await store.close()
    assert [(each.verb, each.outcome) for each in calls] == [
        ("submit", "unknown"),
        ("submit", "ok"),
        ("claim", "ok"),
        ("commit", "ok"),
        ("release", "fail"),
        ("read", "ok"),
    ]
    assert calls[0].ended == math.inf
    assert calls[1].answer == {"run": "r", "became": "existing"}
    assert calls[5].answer == {"run": "r", "status": "completed", "length": 1, "fence": 1}
    assert [(end.status, len(end.journal)) for end in ends] == [("completed", 1)]
    assert check(history_of(calls, ends)) == []


async def test_a_call_that_never_answered_is_unknown(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    await store.open()
    try:
        first = recorded(store, tmp_path / "history", "p").read("r")
        assert isinstance(first, asyncio.Future)
        assert [each.outcome for each in load([tmp_path / "history"])] == ["unknown"]
        await first
        assert [each.outcome for each in load([tmp_path / "history"])] == ["ok"]
    finally:
        await store.close()
