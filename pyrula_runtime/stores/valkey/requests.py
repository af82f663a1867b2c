"""What the verbs say to their scripts: values in, arguments out, in the order of each script's header."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from itertools import chain

import orjson

from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.core.limits import HIGHEST_PRIORITY
from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import TERMINAL, Moves
from pyrula_runtime.stores import protocol as p
from pyrula_runtime.stores.valkey.answers import Ended
from pyrula_runtime.stores.valkey.connection import Argument

Arguments = tuple[Argument, ...]
Effects = Callable[[Sequence[p.Effect]], Arguments]  # how they are told at a tag (effects.block)
_NO_KEY: Arguments = ("", "", "", "", "")
_TERMINAL = f"|{'|'.join(sorted(TERMINAL))}|"


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def submit(run: p.NewRun, count: int | None = None) -> Arguments:
    """What `submit` is asked; `count` is the number of shards by which the key was placed, if that matters.

    Raises UsageError for a priority that there is no room for.
    """
    plain = (run.run_id, run.workflow, run.version or "", run.status, run.digest, run.input)
    rare = _rare(run)
    if not (rare or run.priority or run.journal) and run.start_at_ms is None:
        return plain if run.idempotency_key is None else (*plain, *key(run, count))
    if abs(run.priority) > HIGHEST_PRIORITY:
        raise UsageError(
            f"priority {run.priority} of run {run.run_id} must be from {-HIGHEST_PRIORITY} to {HIGHEST_PRIORITY}"
        )
    keyed = _NO_KEY if run.idempotency_key is None else key(run, count)
    return (*plain, *keyed, run.priority, _given(run.start_at_ms), rare, *run.journal)


def _rare(run: p.NewRun) -> bytes:
    """What few runs have, as one value; empty for all others."""
    if run.parent is None and run.schedule_id is None and run.generation == 1:
        return b""
    link = ("", "", "") if run.parent is None else (run.parent.run_id, run.parent.on_end, run.parent.op_id)
    parent, on_end, op_id = link
    return orjson.dumps([run.generation, parent, run.schedule_id or "", on_end, op_id])


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
        return ("", "", "--", b"", b"")
    how = "over" if ending.status.is_terminal else ""
    if ending.again is not None:
        how = "again"
    elif ending.wait is not None:
        how = "wait"
    given = ("-" if ending.result is None else "+") + ("-" if ending.error is None else "+")
    return (ending.status, how, given, ending.result or b"", ending.error or b"")


def _going_on(ending: p.Ending | None) -> Arguments:
    """What the run goes on with, or after."""
    if ending is None:
        return ()
    if ending.again is not None:
        return (ending.again,)
    wait = ending.wait
    if wait is None:
        return ()
    return (_given(wait.due_ms), _given(wait.inbox_seen), wait.wake_status, int(wait.cancel_seen), wait.awaits)


def _is_accompanied(wanted: p.Commit) -> bool:
    return bool(wanted.consumed or wanted.facts or wanted.effects) or wanted.shown is not None


def is_plain(wanted: p.Commit) -> bool:
    """Whether a commit only appends entries, as most do: then its script is `append`."""
    is_more = wanted.ending is not None or wanted.claim is not None or wanted.dossier is not None
    return not (is_more or _is_accompanied(wanted))


def append(wanted: p.Commit) -> Arguments:
    """What `append` is asked."""
    token = wanted.token
    return (token.run_id, token.fence, token.nonce, wanted.expected_len, wanted.lock_ttl_ms, *wanted.entries)


def commit(wanted: p.Commit, effects: Effects) -> Arguments:
    """What `commit` is asked. UsageError for facts by which no repetition could be known."""
    token = wanted.token
    if wanted.facts and not wanted.entries and wanted.ending is None:
        raise UsageError(f"a commit of run {token.run_id} tells facts without entries or an ending")
    asked = () if wanted.claim is None else claim(wanted.claim)
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
        len(asked),
        *asked,
        *_going_on(wanted.ending),
        *(_accompaniment(wanted, effects) if _is_accompanied(wanted) else ()),
    )


def _accompaniment(wanted: p.Commit, effects: Effects) -> Arguments:
    return (
        len(wanted.consumed),
        *wanted.consumed,
        int(wanted.shown is not None),
        wanted.shown or b"",
        len(wanted.facts),
        *wanted.facts,
        *effects(wanted.effects),
    )


def release(wanted: p.Release, effects: Effects) -> Arguments:
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
        *(effects(wanted.effects) if wanted.effects else ()),
    )


def _given(number: int | None) -> Argument:
    return "" if number is None else int(number)


def amend(wanted: p.Amendment, effects: Effects) -> Arguments:
    """What `amend` is asked."""
    return (
        wanted.run_id,
        wanted.rev,
        wanted.status or "",
        _TERMINAL,
        _given(wanted.ready),
        _given(wanted.cancel_requested),
        *_dossier(wanted.dossier),
        int(wanted.clear_outcome),
        _given(wanted.due_ms),
        wanted.expected_len,
        len(wanted.append),
        *wanted.append,
        *(effects(wanted.effects) if wanted.effects else ()),
    )


def renew(tokens: Sequence[Token], lock_ttl_ms: int) -> Arguments:
    """What `renew` is asked."""
    return (lock_ttl_ms, *(part for token in tokens for part in (token.run_id, token.fence, token.nonce)))


def led(moves: Moves) -> Arguments:
    """Each status that does not absorb, and where it leads."""
    return tuple(status for pair in moves.items() for status in pair)


def deliver(message: p.Message, moves: Moves) -> Arguments:
    """What `deliver` is asked. To scripts a message is one value; `answers.received` takes it apart."""
    message_id, name = message.message_id.encode(), message.name.encode()
    packed = orjson.dumps([len(message_id), len(name)]) + message_id + name + message.body
    return (message.run_id, message_id, packed, *led(moves))


def cancel(effect: p.CancelRun) -> Arguments:
    """What `cancel` is asked."""
    return (effect.run_id, *led(effect.moves))


def emit(event: p.Event) -> Arguments:
    """What `emit` is asked."""
    return (event.event_id, event.name, event.body, event.ttl_ms)


def schedule(to: p.ScheduleRecord | p.Firing) -> Arguments:
    """What `put_schedule` is asked, and `fire` beside effects."""
    return (to.schedule_id, to.rev, to.record, _given(to.next_ms))


def find(query: p.RunQuery) -> Arguments:
    """What `find` is asked."""
    statuses = p.EVERY_STATUS if query.statuses is None else query.statuses
    before = "+" if query.before is None else f"({query.before}"
    kin = ("", "")
    if query.parent is not None:
        kin = ("lp", query.parent)
    elif query.schedule_id is not None:
        kin = ("lf", query.schedule_id)
    return (query.workflow or "", *kin, before, query.limit, *sorted(statuses))


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
