"""What is held against a run: its own table for the record, since few runs have one, and a flag beside `ready`.

The flag chooses the line in which a claimable run stands (`ready` 1 or 2), so whoever writes `ready` writes it too, in
the same statement; `replace` is for a run that is held, which stands in no line.
"""

from __future__ import annotations

from pyrula_runtime.stores.protocol import CLEAN, Dossier
from pyrula_runtime.stores.sqlite.queries import named
from pyrula_runtime.stores.sqlite.transaction import Tx

SQL = named("dossiers")


def told(record: bytes | None, suspect: int) -> Dossier:
    """A dossier from its columns."""
    return CLEAN if record is None and not suspect else Dossier(record=record or b"", is_suspect=bool(suspect))


def suspect(dossier: Dossier | None) -> int | None:
    """The flag to be written, None to leave it."""
    return None if dossier is None else int(dossier.is_suspect)


def write(tx: Tx, run: int, dossier: Dossier | None) -> None:
    """Write the record, if one is given; the flag has been written with `ready`."""
    if dossier is None:
        return
    if dossier.record:
        tx.rows(SQL["keep"], run, dossier.record)
    else:
        tx.rows(SQL["drop"], run)


def replace(tx: Tx, run: int, dossier: Dossier) -> None:
    """Write record and flag of a run that is held."""
    tx.rows(SQL["flag"], run, int(dossier.is_suspect))
    write(tx, run, dossier)
