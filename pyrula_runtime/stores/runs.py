"""A run as it is made, listed and shown, with what is held against it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pyrula_runtime.core.status import RunStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run to be created. `input` is a JSON document; `digest` says when two submits are the same."""

    run_id: str
    workflow: str
    version: str | None
    input: bytes
    digest: str
    status: RunStatus
    idempotency_key: str | None = None
    idempotency_ttl_ms: int = 86_400_000


class Submission(StrEnum):
    """What became of a submit."""

    created = "created"
    existing = "existing"  # same key or id, same digest: the first run answers
    conflict = "conflict"  # same key or id, other digest: nothing was written


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """Answer of `submit`; `run_id` is the run that now stands for the request."""

    run_id: str
    submission: Submission


@dataclass(frozen=True, slots=True, kw_only=True)
class Dossier:
    """What is held against a run (core.blame): `record` is opaque to a store, a suspect is for `suspects` claims."""

    record: bytes = b""
    is_suspect: bool = False


CLEAN = Dossier()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A run as it stands, without its journal. Times are wall-clock milliseconds.

    `rev` grows with each change of status or operator's act (not with each journal entry). `owner` is the holder's
    incarnation and `lock_left_ms` the rest of its lock's life (negative: lapsed), both None unless it is held.
    """

    run_id: str
    workflow: str
    version: str | None
    status: RunStatus
    rev: int
    fence: int
    input: bytes
    result: bytes | None
    error: bytes | None
    digest: str
    journal_len: int
    journal_bytes: int
    inbox_len: int
    cancel_requested: bool
    dossier: Dossier
    created_ms: int
    started_ms: int | None
    finished_ms: int | None
    owner: str | None
    lock_left_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """Which runs to list, newest first (ids sort by age). `before` is the last run id of the page before."""

    workflow: str | None = None
    statuses: frozenset[RunStatus] | None = None
    limit: int = 100
    before: str | None = None


EVERY_STATUS = frozenset(RunStatus)
