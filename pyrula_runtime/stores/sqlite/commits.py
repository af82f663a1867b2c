"""Writing journal entries under a token, and ending the turn with them.

The usual commit is one guarded update: token and journal length are in its WHERE. Only if it finds nothing is the run
looked at, to tell a repeated call (`duplicate`) from a dead token (`fenced`) from lost data (`gap`). Other entries at
`expected_len` under a live token mean that the turn's view of its journal is not the store's: that turn must end too,
so it is told `fenced`.
"""

from __future__ import annotations

from pyrula_runtime.stores.protocol import Append, Commit, Committed, Ending, Wake
from pyrula_runtime.stores.sqlite import dossiers, journal
from pyrula_runtime.stores.sqlite.claims import claim
from pyrula_runtime.stores.sqlite.queries import named
from pyrula_runtime.stores.sqlite.transaction import Tx, Value

SQL = named("commits")


def commit(tx: Tx, wanted: Commit) -> Committed:
    """Append and, with an ending, let go of the run; then take what `claim` asks for."""
    token, size = wanted.token, sum(map(len, wanted.entries))
    guard: tuple[Value, ...] = (token.run_id, token.fence, token.nonce, wanted.expected_len, len(wanted.entries), size)
    if wanted.ending is None:
        found = tx.rows(SQL["extend"], *guard, tx.mono_ms + wanted.lock_ttl_ms)
    else:
        finished_ms = tx.wall_ms if wanted.ending.status.is_terminal else None
        found = tx.rows(SQL["end"], *guard, wanted.ending.status, finished_ms)
    if not found:
        return _not_done(tx, wanted)
    ((run, cancel),) = found
    journal.append(tx.db, run, wanted.expected_len, wanted.entries)
    if wanted.dossier is not None:
        dossiers.replace(tx, run, wanted.dossier)
    if wanted.ending is not None:
        _settle(tx, run, wanted.ending)
    return Committed(
        append=Append.done,
        length=wanted.expected_len + len(wanted.entries),
        cancel_requested=bool(cancel),
        claims=claim(tx, wanted.claim) if wanted.claim is not None else (),
    )


def _settle(tx: Tx, run: int, ending: Ending) -> None:
    if ending.result is not None or ending.error is not None:
        tx.rows(SQL["outcome"], run, ending.result, ending.error)
    if ending.status.is_terminal:
        tx.wakes.add(Wake.ended)


def _not_done(tx: Tx, wanted: Commit) -> Committed:
    """Why the guarded update found nothing."""
    standing = tx.rows(SQL["standing"], wanted.token.run_id)
    if not standing:
        return Committed(append=Append.fenced, length=0)
    ((run, fence, nonce, held, claim_len, length, cancel, status),) = standing
    append = Append.fenced
    if (fence, nonce) == (wanted.token.fence, wanted.token.nonce):
        same = claim_len <= wanted.expected_len and journal.stands(tx.db, run, wanted.expected_len, wanted.entries)
        if held and length < wanted.expected_len:
            append = Append.gap
        elif held and same and wanted.ending is None:
            append = Append.duplicate
            tx.rows(SQL["keep_lock"], run, tx.mono_ms + wanted.lock_ttl_ms)
        elif not held and same and _ended_so(tx, run, status, length, wanted):
            append = Append.duplicate
    return Committed(append=append, length=length, cancel_requested=bool(cancel))


def _ended_so(tx: Tx, run: int, status: str, length: int, wanted: Commit) -> bool:
    """Whether this very commit ended the turn."""
    ending = wanted.ending
    return (
        ending is not None
        and ending.status == status
        and length == wanted.expected_len + len(wanted.entries)
        and bool(tx.rows(SQL["ended_with"], run, ending.result, ending.error))
    )
