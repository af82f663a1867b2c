"""What the verbs say to their scripts: values in, arguments out, in the order of each script's header."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from itertools import chain

import orjson

from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import Moves
from pyrula_runtime.stores import protocol as p
from pyrula_runtime.stores.valkey.answers import Ended
from pyrula_runtime.stores.valkey.connection import Argument

Arguments = tuple[Argument, ...]


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def submit(run: p.NewRun, count: int | None = None) -> Arguments:
    """What `submit` is asked; `count` is the number of shards by which the key was placed, if that matters."""
    plain = (run.run_id, run.workflow, run.version or "", run.status, run.digest, run.input)
    if run.idempotency_key is None:
        return plain
    return (*plain, *key(run, count))


def key(run: p.NewRun, count: int | None) -> Arguments:
    """What `key` is asked about a run that has one."""
    digest = _digest(run.idempotency_key or "")
    return (digest[:2].hex(), digest, _digest(run.digest), run.idempotency_ttl_ms, "" if count is None else count)


def lines(request: p.ClaimRequest) -> dict[str, None]:
    """The lines a request looks at, each once: a workflow served in two versions has one line of unpinned runs."""
    kind = "x:" if request.suspects else "q:"
    found: dict[str, None] = {}
    for serves in request.serves:
        found[f"{kind}{serves.workflow}"] = None
        if serves.version is not None:
            found[f"{kind}{serves.workflow}|{serves.version}"] = None
    return found


def claim(request: p.ClaimRequest) -> Arguments:
    """What `claim` is asked."""
    wanted = lines(request)
    nonce = os.urandom(8).hex()
    return (
        request.incarnation,
        request.lock_ttl_ms,
        request.to_status,
        request.limit,
        nonce,
        len(wanted),
        *wanted,
    )


def _dossier(dossier: p.Dossier | None) -> Arguments:
    return ("", b"") if dossier is None else (int(dossier.is_suspect), dossier.record)


def _ending(ending: p.Ending | None) -> Arguments:
    if ending is None:
        return ("", 0, "--", b"", b"")
    given = ("-" if ending.result is None else "+") + ("-" if ending.error is None else "+")
    return (ending.status, int(ending.status.is_terminal), given, ending.result or b"", ending.error or b"")


def is_plain(wanted: p.Commit) -> bool:
    """Whether a commit only appends entries, as most do: then its script is `append`."""
    return wanted.ending is None and wanted.claim is None and wanted.dossier is None


def append(wanted: p.Commit) -> Arguments:
    """What `append` is asked."""
    token = wanted.token
    return (token.run_id, token.fence, token.nonce, wanted.expected_len, wanted.lock_ttl_ms, *wanted.entries)


def commit(wanted: p.Commit) -> Arguments:
    """What `commit` is asked."""
    token = wanted.token
    return (
        token.run_id,
        token.fence,
        token.nonce,
        wanted.expected_len,
        wanted.lock_ttl_ms,
        *_dossier(wanted.dossier),
        *_ending(wanted.ending),
        len(wanted.entries),
        *wanted.entries,
        *(() if wanted.claim is None else claim(wanted.claim)),
    )


def release(wanted: p.Release) -> Arguments:
    """What `release` is asked."""
    token = wanted.token
    return (
        token.run_id,
        token.fence,
        token.nonce,
        wanted.status,
        int(wanted.status.is_terminal),
        int(wanted.ready),
        *_dossier(wanted.dossier),
        int(wanted.error is not None),
        wanted.error or b"",
    )


def _maybe(flag: int | None) -> Argument:
    return "" if flag is None else int(flag)


def amend(wanted: p.Amendment) -> Arguments:
    """What `amend` is asked."""
    status = wanted.status
    return (
        wanted.run_id,
        wanted.rev,
        status or "",
        int(status is not None and status.is_terminal),
        _maybe(wanted.ready),
        _maybe(wanted.cancel_requested),
        *_dossier(wanted.dossier),
        int(wanted.clear_outcome),
        wanted.expected_len,
        len(wanted.append),
        *wanted.append,
    )


def renew(tokens: Sequence[Token], lock_ttl_ms: int) -> Arguments:
    """What `renew` is asked."""
    return (lock_ttl_ms, *(part for token in tokens for part in (token.run_id, token.fence, token.nonce)))


def deliver(message: p.Message, moves: Moves) -> Arguments:
    """What `deliver` is asked."""
    return (message.run_id, message.message_id, message.name, message.body, *sorted(p.EVERY_STATUS - moves.keys()))


def find(query: p.RunQuery) -> Arguments:
    """What `find` is asked."""
    statuses = p.EVERY_STATUS if query.statuses is None else query.statuses
    before = "+" if query.before is None else f"({query.before}"
    return (query.workflow or "", before, query.limit, *sorted(statuses))


def drop(runs: Iterable[tuple[Ended, bool]]) -> Arguments:
    """What `drop` is asked: runs, and whether each is to be kept."""
    return tuple(chain.from_iterable((run.run_id, run.status, run.rev, int(keep)) for run, keep in runs))


def worker(worker: p.WorkerRecord) -> bytes:
    """What a worker tells, but for the age, which the store knows."""
    return orjson.dumps(
        {
            "incarnation": worker.incarnation,
            "worker_id": worker.worker_id,
            "pid": worker.pid,
            "host": worker.host,
            "serves": [[serves.workflow, serves.version] for serves in worker.serves],
            "capacity": worker.capacity,
            "running": worker.running,
            "draining": worker.draining,
        }
    )
