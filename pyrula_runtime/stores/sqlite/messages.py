"""Messages in a run's inbox: once per id, in order of arrival, kept until the journal has taken them over.

A consumed message leaves its id behind, so that the same message never comes twice, however long its run lives.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from pyrula_runtime.core.status import Moves, RunStatus
from pyrula_runtime.stores.protocol import Delivery, Message, Received, Wake
from pyrula_runtime.stores.sqlite import waits
from pyrula_runtime.stores.sqlite.queries import named
from pyrula_runtime.stores.sqlite.transaction import Tx

SQL = named("messages")
PAGE_BYTES = 1_000_000


def deliver(tx: Tx, message: Message, moves: Moves) -> Delivery:
    """Deliver, unless the message is there already or the run has ended; a run that waits for messages goes on."""
    standing = tx.rows(SQL["run"], message.run_id)
    if not standing:
        return Delivery.unknown
    ((run, status, length, hears, held),) = standing
    if tx.rows(SQL["seen"], run, message.message_id):
        return Delivery.duplicate
    target = moves.get(RunStatus(status))
    if target is None:
        return Delivery.ended
    tx.rows(SQL["put"], run, length + 1, message.message_id, message.name, message.body)
    tx.rows(SQL["count"], run)
    if held:
        tx.wakes.add(Wake.attention)
    elif hears and target != status:
        waits.go_on(tx, run, target)
    return Delivery.delivered


def consume(tx: Tx, run: int, numbers: Sequence[int]) -> None:
    """Drop the bodies of messages that the journal has taken over."""
    for seq in numbers:
        tx.rows(SQL["consume"], run, seq)


def unconsumed(db: apsw.Connection, run: int, after_seq: int = 0) -> tuple[Received, ...]:
    """A page of the messages that are left."""
    found: list[Received] = []
    size = 0
    for seq, message_id, name, body in db.execute(SQL["open"], (run, after_seq)):
        size += len(body)
        if found and size > PAGE_BYTES:
            break
        found.append(Received(seq=seq, message_id=message_id, name=name, body=body))
    return tuple(found)


def read(db: apsw.Connection, run_id: str, after_seq: int) -> tuple[Received, ...]:
    """A page of the messages that are left to the run with this id."""
    for (run,) in db.execute(SQL["number"], (run_id,)):
        return unconsumed(db, run, after_seq)
    return ()
