"""A run as it is made, listed and shown, with what is held against it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.core.tree import OnEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentLink:
    """Whose child a run is: the operation that started it, and what becomes of the child at the parent's end."""

    run_id: str
    op_id: str
    on_end: OnEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run to be created. `input` is a JSON document; `digest` says when two submits are the same.

    A higher `priority` (-1000 to 1000) is claimed first, then the place in line decides. With `start_at_ms` the run is
    not claimable until then, whatever messages come before: `status` says that it waits, and `wake_due` ends that. A
    run of a schedule names it. One that is forked from another begins with a journal, in that one's generation.
    """

    run_id: str
    workflow: str
    version: str | None
    input: bytes
    digest: str
    status: RunStatus
    idempotency_key: str | None = None
    idempotency_ttl_ms: int = 86_400_000
    priority: int = 0
    start_at_ms: int | None = None
    parent: ParentLink | None = None
    schedule_id: str | None = None
    journal: tuple[bytes, ...] = ()
    generation: int = 1


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
    `inbox_len` counts all messages that ever came. `due_ms` is the time a waiting run waits for, if any, and `awaits`
    says in words for which messages it waits, None if none would send it on. `generation` counts from 1 how often its
    code began as new; `shown` is the document its code last showed.
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
    priority: int = 0
    start_at_ms: int | None = None
    due_ms: int | None = None
    awaits: str | None = None
    parent: ParentLink | None = None
    schedule_id: str | None = None
    generation: int = 1
    shown: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """Which runs to list, newest first (ids sort by age). `before` is the last run id of the page before.

    `parent` asks for the children of a run, `schedule_id` for the runs of a schedule; not both at once.
    """

    workflow: str | None = None
    statuses: frozenset[RunStatus] | None = None
    limit: int = 100
    before: str | None = None
    parent: str | None = None
    schedule_id: str | None = None


EVERY_STATUS = frozenset(RunStatus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """How many runs there are: by workflow and status, as suspects that wait for a cell, by version if pinned."""

    counts: Mapping[tuple[str, RunStatus], int]
    suspects: int
    pins: Mapping[tuple[str, str], int]
