"""Writing journal entries under a token, and ending the turn with them.

The usual commit is one guarded update: token and journal length are in its WHERE. Only if it finds nothing is the run
looked at, to tell a repeated call (`duplicate`) from a dead token (`fenced`) from lost data (`gap`). Other entries at
`expected_len` under a live token mean that the turn's view of its journal is not the store's: that turn must end too,
so it is told `fenced`.
"""

from __future__ import annotations

from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.stores.protocol import Append, Commit, Committed, Ending, Wake
from pyrula_runtime.stores.sqlite import dossiers, effects, facts, journal, messages, waits
from pyrula_runtime.stores.sqlite.claims import claim
from pyrula_runtime.stores.sqlite.queries import named
from pyrula_runtime.stores.sqlite.transaction import Tx, Value

SQL = named("commits")


def commit(tx: Tx, wanted: Commit) -> Committed:
    """Append and, with an ending, let go of the run; then take what `claim` asks for."""
    if wanted.facts and not wanted.entries and wanted.ending is None:
        raise UsageError(f"a commit of run {wanted.token.run_id} tells facts without entries or an ending")
    found = _guarded(tx, wanted)
    if not found:
        return _not_done(tx, wanted)
    ((run, cancel, inbox_len),) = found
    ending = wanted.ending
    is_new = ending is not None and ending.again is not None
    if not is_new:
        journal.append(tx.db, run, wanted.expected_len, wanted.entries)
    if wanted.dossier is not None:
        dossiers.replace(tx, run, wanted.dossier)
    if ending is not None:
        _settle(tx, run, ending, inbox_len, cancelled=bool(cancel))
    if wanted.consumed or wanted.facts or wanted.effects or wanted.shown is not None:
        _accompany(tx, run, wanted)
    return Committed(
        append=Append.done,
        length=0 if is_new else wanted.expected_len + len(wanted.entries),
        cancel_requested=bool(cancel),
        claims=claim(tx, wanted.claim) if wanted.claim is not None else (),
        inbox_len=inbox_len,
    )


def _guarded(tx: Tx, wanted: Commit) -> list[tuple[int, int, int]]:
    """The one update that checks the token: number of the run, cancel request and inbox; nothing if it is refused."""
    token, size, ending = wanted.token, sum(map(len, wanted.entries)), wanted.ending
    guard: tuple[Value, ...] = (token.run_id, token.fence, token.nonce, wanted.expected_len)
    grown: tuple[Value, ...] = (*guard, len(wanted.entries), size)
    if ending is None:
        return tx.rows(SQL["extend"], *grown, tx.mono_ms + wanted.lock_ttl_ms)
    if ending.again is not None:
        return tx.rows(SQL["again"], *guard, ending.status)
    if ending.wait is not None:
        hears = ending.wait.inbox_seen is not None
        awaits = ending.wait.awaits if hears else None
        return tx.rows(SQL["suspend"], *grown, ending.status, ending.wait.due_ms, int(hears), awaits)
    return tx.rows(SQL["end"], *grown, ending.status, tx.wall_ms if ending.status.is_terminal else None)


def _settle(tx: Tx, run: int, ending: Ending, inbox_len: int, *, cancelled: bool) -> None:
    if ending.result is not None or ending.error is not None:
        tx.rows(SQL["outcome"], run, ending.result, ending.error)
    if ending.status.is_terminal:
        tx.wakes.add(Wake.ended)
    if ending.again is not None:
        journal.clear(tx.db, run)
        tx.rows(SQL["new_input"], run, ending.again)
        waits.go_on(tx, run, ending.status, is_change=False)
    elif ending.wait is not None:
        if waits.has_come(tx, ending.wait, inbox_len, cancelled=cancelled):
            waits.go_on(tx, run, ending.wait.wake_status, is_change=False)
        else:
            waits.ring_if_sooner(tx, run, ending.status, ending.wait.due_ms)


def _accompany(tx: Tx, run: int, wanted: Commit) -> None:
    """What a commit brings besides entries."""
    messages.consume(tx, run, wanted.consumed)
    facts.tell(tx, run, wanted.facts)
    if wanted.shown is not None:
        tx.rows(SQL["show"], run, wanted.shown)
    effects.perform(tx, wanted.effects)


def _not_done(tx: Tx, wanted: Commit) -> Committed:
    """Why the guarded update found nothing."""
    standing = tx.rows(SQL["standing"], wanted.token.run_id)
    if not standing:
        return Committed(append=Append.fenced, length=0)
    ((run, fence, nonce, held, claim_len, length, cancel, inbox_len, status),) = standing
    append = Append.fenced
    if (fence, nonce) == (wanted.token.fence, wanted.token.nonce):
        same = claim_len <= wanted.expected_len and journal.stands(tx.db, run, wanted.expected_len, wanted.entries)
        if held and length < wanted.expected_len:
            append = Append.gap
        elif held and same and wanted.ending is None:
            append = Append.duplicate
            tx.rows(SQL["keep_lock"], run, tx.mono_ms + wanted.lock_ttl_ms)
        elif not held and wanted.ending is not None and _ended_so(tx, run, wanted, status, length if same else -1):
            append = Append.duplicate
    return Committed(append=append, length=length, cancel_requested=bool(cancel), inbox_len=inbox_len)


def _ended_so(tx: Tx, run: int, wanted: Commit, status: str, same_len: int) -> bool:
    """Whether this very commit ended the turn; `same_len` is the journal's length if its entries stand there, or -1."""
    ending = wanted.ending
    assert ending is not None
    if ending.again is not None:  # its entries went with the old journal
        return status == ending.status and bool(tx.rows(SQL["goes_on_with"], run, ending.again))
    statuses = {ending.status} if ending.wait is None else {ending.status, ending.wait.wake_status}
    told = ending.result is not None or ending.error is not None
    return (
        status in statuses
        and same_len == wanted.expected_len + len(wanted.entries)
        and (not told or bool(tx.rows(SQL["ended_with"], run, ending.result, ending.error)))
    )
