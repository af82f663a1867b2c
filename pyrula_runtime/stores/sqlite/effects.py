"""What a write on one run does to others: here all runs are in one file, so it is done in the same transaction."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.stores.protocol import CancelRun, DeliverTo, Effect, EmitEvent, SubmitRun, Wake
from pyrula_runtime.stores.sqlite import events, messages, submits, waits
from pyrula_runtime.stores.sqlite.queries import named
from pyrula_runtime.stores.sqlite.transaction import Tx

SQL = named("effects")


def perform(tx: Tx, effects: Sequence[Effect]) -> None:
    """Do them in their order."""
    for effect in effects:
        match effect:
            case DeliverTo():
                messages.deliver(tx, effect.message, effect.moves)
            case SubmitRun():
                submits.submit(tx, effect.run)
            case CancelRun():
                _cancel(tx, effect)
            case EmitEvent():
                events.emit(tx, effect.event)


def _cancel(tx: Tx, effect: CancelRun) -> None:
    for run, status, held in tx.rows(SQL["cancel"], effect.run_id, json.dumps(sorted(effect.moves))):
        target = effect.moves[RunStatus(status)]
        if held:
            tx.wakes.add(Wake.attention)
        elif target != status:
            waits.go_on(tx, run, target, is_change=False)  # the cancel is the change
