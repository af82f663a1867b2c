"""Giving a run back, and an operator's changes to one."""

from __future__ import annotations

from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.stores.protocol import Amendment, Release, Wake
from pyrula_runtime.stores.sqlite import dossiers, effects, journal, waits
from pyrula_runtime.stores.sqlite.queries import named
from pyrula_runtime.stores.sqlite.transaction import Tx

SQL = named("releases")


def _finished(tx: Tx, status: RunStatus | None) -> int | None:
    return tx.wall_ms if status is not None and status.is_terminal else None


def release(tx: Tx, wanted: Release) -> bool:
    """Let go of the run under its token, with what is held against it in the same write."""
    token = wanted.token
    found = tx.rows(
        SQL["release"],
        token.run_id,
        token.fence,
        token.nonce,
        wanted.status,
        int(wanted.ready),
        dossiers.suspect(wanted.dossier),
        _finished(tx, wanted.status),
    )
    if not found:
        return False
    dossiers.write(tx, found[0][0], wanted.dossier)
    if wanted.error is not None:
        tx.rows(SQL["error"], found[0][0], wanted.error)
    _wake(tx, ready=wanted.ready, status=wanted.status)
    effects.perform(tx, wanted.effects)
    return True


def _wake(tx: Tx, *, ready: bool, status: RunStatus | None) -> None:
    if ready:
        tx.wakes.add(Wake.ready)
    if status is not None and status.is_terminal:
        tx.wakes.add(Wake.ended)


def amend(tx: Tx, wanted: Amendment) -> bool:
    """Change the run if its revision, and its journal's length if entries come with it, are still the expected ones."""
    standing = tx.rows(SQL["standing"], wanted.run_id, wanted.rev)
    if not standing:
        return False
    ((run, held, length),) = standing
    if wanted.append and length != wanted.expected_len:
        return False
    if held and wanted.ready and wanted.status is None:
        raise UsageError(f"run {wanted.run_id} is held by a worker; to make it claimable, give its new status too")
    if held:
        tx.wakes.add(Wake.attention)
        if wanted.status is not None:
            tx.rows(SQL["let_go"], run)
    journal.append(tx.db, run, length, wanted.append)
    _write(tx, run, wanted)
    _wake(tx, ready=bool(wanted.ready), status=wanted.status)
    if wanted.status is not None:
        waits.ring_if_sooner(tx, run, wanted.status, wanted.due_ms)
    effects.perform(tx, wanted.effects)
    return True


def _write(tx: Tx, run: int, wanted: Amendment) -> None:
    if wanted.clear_outcome:
        tx.rows(SQL["clear_time"], run)
        tx.rows(SQL["clear_outcome"], run)
    tx.rows(
        SQL["amend"],
        run,
        wanted.status,
        None if wanted.ready is None else int(wanted.ready),
        None if wanted.cancel_requested is None else int(wanted.cancel_requested),
        dossiers.suspect(wanted.dossier),
        len(wanted.append),
        sum(map(len, wanted.append)),
        _finished(tx, wanted.status),
        wanted.due_ms,
    )
    dossiers.write(tx, run, wanted.dossier)
