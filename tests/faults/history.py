"""What happened, as the callers of a store saw it: a recorder around a store, and its records read back.

A record is written before a call and another one after it, each a line of JSON that goes to the file in one write, so
that a killed process leaves whole lines. A call whose second line is missing, or whose answer was lost, is *unknown*:
it may have happened at any time after it was begun, or never. Entries and inputs are kept as digests; a checker only
asks whether they are the same.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import Any, cast

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.core.locks import Token
from pyrula_runtime.engine.codec import load_record
from pyrula_runtime.stores import protocol as p

Seen = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of one process. `outcome` is ok, fail (certainly not done) or unknown; times are monotonic seconds."""

    proc: str
    verb: str
    given: Seen
    began: float
    ended: float = math.inf
    outcome: str = "unknown"
    answer: Seen = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalRun:
    """A run as the store had it when all was over."""

    run_id: str
    status: str
    fence: int
    held: bool
    journal: tuple[str, ...]
    charges: int = 0


def digest(raw: bytes) -> str:
    """Short, and different for different bytes."""
    return blake2b(raw, digest_size=8).hexdigest()


def _token(token: Token) -> Seen:
    return {"run": token.run_id, "fence": token.fence, "nonce": token.nonce}


def _claim(claim: p.Claim) -> Seen:
    page = [digest(raw) for raw in claim.journal]
    return {**_token(claim.token), "length": claim.journal_len, "journal": page, "started_ms": claim.started_ms}


def _record(record: p.RunRecord | None) -> Seen:
    if record is None:
        return {"run": None}
    return {"run": record.run_id, "status": record.status, "length": record.journal_len, "fence": record.fence}


# What is kept of the arguments and of the answer of each verb; verbs that are absent here say nothing about runs.
GIVEN: dict[str, Callable[..., Seen]] = {
    "submit": lambda run: {"run": run.run_id, "key": run.idempotency_key, "digest": run.digest},
    "claim": lambda request: {"by": request.incarnation, "limit": request.limit},
    "commit": lambda commit: {
        **_token(commit.token),
        "at": commit.expected_len,
        "entries": [digest(raw) for raw in commit.entries],
        "ending": None if commit.ending is None else commit.ending.status,
    },
    "renew": lambda tokens, lock_ttl_ms: {"tokens": [_token(token) for token in tokens]},
    "release": lambda release: {**_token(release.token), "status": release.status},
    "amend": lambda amendment: {
        "run": amendment.run_id,
        "rev": amendment.rev,
        "status": amendment.status,
        "cancel": amendment.cancel_requested,
        "entries": [digest(raw) for raw in amendment.append],
        "at": amendment.expected_len,
    },
    "reclaim_lapsed": lambda to_status, lock_ttl_ms, limit: {},
    "holdings": lambda incarnation: {"of": incarnation},
    "read": lambda run_id: {"run": run_id},
    "read_journal": lambda run_id, start, max_bytes=0: {"run": run_id, "at": start},
    "find": lambda query: {},
}
ANSWER: dict[str, Callable[[Any], Seen]] = {
    "submit": lambda answer: {"run": answer.run_id, "became": answer.submission},
    "claim": lambda answer: {"claims": [_claim(claim) for claim in answer]},
    "commit": lambda answer: {
        "append": answer.append.value,
        "length": answer.length,
        "claims": [_claim(claim) for claim in answer.claims],
    },
    "renew": lambda answer: {"lost": sorted(answer.lost), "cancelled": sorted(answer.cancelled)},
    "release": lambda answer: {"done": answer},
    "amend": lambda answer: {"done": answer},
    "reclaim_lapsed": lambda answer: {"runs": answer.run_ids, "grace": answer.grace},
    "holdings": lambda answer: {"tokens": [_token(holding.token) for holding in answer]},
    "read": _record,
    "read_journal": lambda answer: {"entries": [digest(raw) for raw in answer]},
    "find": lambda answer: {"runs": [_record(record) for record in answer]},
}


class Recorder:
    """A store that writes down what it is asked and what it answers, and otherwise is the one it was given."""

    def __init__(self, store: p.Store, path: Path, proc: str) -> None:
        self._store = store
        self._proc = proc
        self._numbers = count(1)
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def __getattr__(self, name: str) -> Any:
        act = getattr(self._store, name)
        return partial(self._call, name, act) if name in GIVEN else act

    def _call(self, verb: str, act: Callable[..., Any], *args: Any, **kwargs: Any) -> asyncio.Future[Any]:
        number = next(self._numbers)
        self._write({"n": number, "verb": verb, "given": GIVEN[verb](*args, **kwargs)})
        answer: asyncio.Future[Any] = asyncio.ensure_future(act(*args, **kwargs))
        answer.add_done_callback(partial(self._answered, number, verb))
        return answer

    def _answered(self, number: int, verb: str, answer: asyncio.Future[Any]) -> None:
        if answer.cancelled():
            return
        error = answer.exception()
        if error is None:
            self._write({"n": number, "outcome": "ok", "answer": ANSWER[verb](answer.result())})
        else:
            outcome = "unknown" if isinstance(error, StoreUnavailable) else "fail"
            self._write({"n": number, "outcome": outcome, "answer": {"error": str(error)}})

    def _write(self, record: Seen) -> None:
        line = json.dumps({"t": time.monotonic(), "proc": self._proc, **record}, default=list)
        os.write(self._fd, line.encode() + b"\n")

    def let_go(self) -> None:
        """Close the file of records."""
        os.close(self._fd)


def recorded(store: p.Store, path: Path, proc: str) -> p.Store:
    """The store with a recorder around it; `proc` must be another one for each life of a process."""
    return cast(p.Store, Recorder(store, path, proc))


def load(paths: Iterable[Path]) -> list[Call]:
    """The calls in these files, in order of their beginning; who was ended before its first call has left no file."""
    calls: dict[tuple[str, int], Call] = {}
    for path in filter(Path.exists, paths):
        for line in path.read_text().splitlines():
            told = json.loads(line)
            key = (told["proc"], told["n"])
            if "verb" in told:
                calls[key] = Call(proc=told["proc"], verb=told["verb"], given=told["given"], began=told["t"])
            else:
                calls[key] = _ended(calls[key], told)
    return sorted(calls.values(), key=lambda call: call.began)


def _ended(call: Call, told: Seen) -> Call:
    answer, ended = told["answer"], told["t"]
    if told["outcome"] == "unknown":
        ended = math.inf
    return Call(
        proc=call.proc,
        verb=call.verb,
        given=call.given,
        began=call.began,
        ended=ended,
        outcome=told["outcome"],
        answer=answer,
    )


async def final_runs(store: p.Store) -> list[FinalRun]:
    """Every run in the store, with its whole journal."""
    runs: list[FinalRun] = []
    before: str | None = None
    while page := await store.find(p.RunQuery(limit=500, before=before)):
        runs += [await _final(store, record) for record in page]
        before = page[-1].run_id
    return runs


async def _final(store: p.Store, record: p.RunRecord) -> FinalRun:
    return FinalRun(
        run_id=record.run_id,
        status=record.status,
        fence=record.fence,
        held=record.owner is not None,
        journal=tuple(digest(raw) for raw in await whole_journal(store, record.run_id)),
        charges=len(load_record(record.dossier.record).charges),
    )


async def whole_journal(store: p.Store, run_id: str) -> Sequence[bytes]:
    """All entries of a run's journal."""
    entries: list[bytes] = []
    while page := await store.read_journal(run_id, len(entries)):
        entries += page
    return entries
