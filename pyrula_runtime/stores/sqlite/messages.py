"""Putting messages into a run's inbox: once per id, in order of arrival, kept if nobody waits for them yet."""

from __future__ import annotations

from pyrula_runtime.core.status import Moves
from pyrula_runtime.stores.protocol import Delivery, Message
from pyrula_runtime.stores.sqlite.queries import named
from pyrula_runtime.stores.sqlite.transaction import Tx

SQL = named("messages")


def deliver(tx: Tx, message: Message, moves: Moves) -> Delivery:
    """Deliver, unless the message is there already or the run has ended."""
    standing = tx.rows(SQL["run"], message.run_id)
    if not standing:
        return Delivery.unknown
    ((run, status, length),) = standing
    if tx.rows(SQL["seen"], run, message.message_id):
        return Delivery.duplicate
    if status not in moves:
        return Delivery.ended
    tx.rows(SQL["put"], run, length, message.message_id, message.name, message.body)
    tx.rows(SQL["count"], run)
    return Delivery.delivered
