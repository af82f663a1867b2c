"""A run's relatives: the children it starts and tells, what becomes of them at its end, and the parent it reports to.

All of it is done by effects of the very commit that records it, so a crash leaves both done or neither. A child's id is
made of its parent's and of the operation that started it: whoever repeats that starts the same child, which is started
once. How a child ended comes to its parent as a message whose id is the child's, so it comes once. An event, which a
run tells to whom it may concern, is told in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import orjson

from pyrula_runtime.core.cursor import Asked
from pyrula_runtime.core.entries import Completed, Entry, Failed, Op, OpKind, Started, Withdrawn, in_force
from pyrula_runtime.core.errors import CodecFailed
from pyrula_runtime.core.ids import derived_bytes, event_key
from pyrula_runtime.core.status import CANCELLATION, DELIVERY
from pyrula_runtime.core.tree import OnEnd
from pyrula_runtime.core.waiting import child_letters
from pyrula_runtime.engine import endings
from pyrula_runtime.engine.codec import error_to_json
from pyrula_runtime.engine.payloads import Payloads
from pyrula_runtime.engine.program import ChildCall, EmitCall, Request, TellCall
from pyrula_runtime.stores.protocol import (
    CancelRun,
    Claim,
    DeliverTo,
    Effect,
    EmitEvent,
    Ending,
    Event,
    Message,
    NewRun,
    ParentLink,
    SubmitRun,
)


class Registrar(Protocol):
    """What it takes to have children."""

    payloads: Payloads

    def new_run_id(self, now_ms: int, entropy: bytes) -> str:
        """The store's run id of this time and these 10 bytes."""


class Kin:
    """The relatives of one turn's run."""

    def __init__(
        self, claim: Claim, journal: Sequence[Entry], requests: Mapping[str, Request], host: Registrar
    ) -> None:
        """`requests` is what the body has asked for, by operation, as it grows."""
        self._run_id = claim.token.run_id
        self._parent = claim.parent
        self._requests = requests
        self._host = host
        self._child_ids: dict[str, str] = {}
        self._alive: dict[str, Started] = {each.child_id: each for each in journal if isinstance(each, Started)}
        started = {each.op.op_id: each.child_id for _, each in in_force(journal) if isinstance(each, Started)}
        for _, each in in_force(journal):
            if isinstance(each, Completed | Failed | Withdrawn) and each.op.op_id in started:
                del self._alive[started[each.op.op_id]]

    def expect(self, asked: Asked) -> None:
        """The body asks for a child."""
        if asked.started is not None:
            child_id = asked.started.child_id
        else:
            entropy = derived_bytes(self._run_id, f"{asked.op.op_id}\0{asked.starts}")
            child_id = self._host.new_run_id(asked.at_ms, entropy[:10])
        self._child_ids[asked.op.op_id] = child_id

    def child_id(self, op: Op) -> str:
        """The id of the child of this operation."""
        return self._child_ids[op.op_id]

    def start(self, op: Op, call: ChildCall, at_ms: int) -> Started:
        """What records that the child begins."""
        return Started(op=op, at_ms=at_ms, child_id=self._child_ids[op.op_id], on_end=call.on_end)

    def effects_of(self, entry: Entry) -> tuple[Effect, ...]:
        """What is done to relatives in the write that records this entry."""
        match entry:
            case Started():
                self._alive[entry.child_id] = entry
                return (SubmitRun(run=self._birth(entry)),)
            case Withdrawn(op=op) if op.kind is OpKind.child:
                started = self._alive.pop(self._child_ids[op.op_id], None)
                return () if started is None or started.on_end is OnEnd.abandon else (_cancel(started.child_id),)
            case Completed(op=op) | Failed(op=op) if op.kind is OpKind.child:
                self._alive.pop(self._child_ids[op.op_id], None)
            case Completed(op=op) if op.kind is OpKind.tell:
                return (self._told(op),)
            case Completed(op=op) if op.kind is OpKind.emit:
                return (self._emitted(op),)
        return ()

    def part(self, ending: Ending) -> tuple[Ending, tuple[Effect, ...]]:
        """The turn ends: how, and what its last write does to relatives. What it cannot tell them pauses the run."""
        try:
            return ending, self._farewell(ending)
        except CodecFailed as fault:
            return endings.by_fault(fault), ()

    def _farewell(self, ending: Ending) -> tuple[Effect, ...]:
        """What is done to relatives in the write that ends the run, or lets it go on as new. CodecFailed."""
        if not ending.status.is_terminal and ending.again is None:
            return ()
        cancels = tuple(_cancel(child) for child, each in self._alive.items() if each.on_end is OnEnd.cancel)
        report = report_to(self._parent, self._run_id, ending, self._host.payloads) if ending.again is None else ()
        return (*report, *cancels)

    def _birth(self, started: Started) -> NewRun:
        call = self._requests[started.op.op_id]
        assert isinstance(call, ChildCall)
        link = ParentLink(run_id=self._run_id, op_id=started.op.op_id, on_end=started.on_end)
        return replace(call.run, run_id=started.child_id, input=self._host.payloads.seal(call.run.input), parent=link)

    def _told(self, op: Op) -> Effect:
        call = self._requests[op.op_id]
        assert isinstance(call, TellCall)
        if call.signal is None:
            return _cancel(call.run_id)
        body = self._host.payloads.seal(call.payload)
        message_id = f"{self._run_id}:{op.op_id}"
        message = Message(run_id=call.run_id, message_id=message_id, name=call.signal, body=body)
        return DeliverTo(message=message, moves=DELIVERY)

    def _emitted(self, op: Op) -> Effect:
        call = self._requests[op.op_id]
        assert isinstance(call, EmitCall)
        key = event_key(call.name, call.event_id or f"{self._run_id}:{op.op_id}")
        return EmitEvent(event=Event(event_id=key, name=call.name, body=self._host.payloads.seal(call.payload)))


def _cancel(run_id: str) -> CancelRun:
    return CancelRun(run_id=run_id, moves=CANCELLATION)


def report_to(parent: ParentLink | None, run_id: str, ending: Ending, payloads: Payloads) -> tuple[DeliverTo, ...]:
    """How a run that has a parent tells it that it has ended, and how."""
    if parent is None:
        return ()
    tree: dict[str, object] = {"status": ending.status}
    if ending.result is not None:
        tree["result"] = orjson.Fragment(payloads.open(ending.result))
    if ending.error is not None:
        tree["error"] = error_to_json(payloads.load_error(ending.error))
    name = child_letters(run_id)
    body = payloads.seal(orjson.dumps(tree))
    return (DeliverTo(message=Message(run_id=parent.run_id, message_id=name, name=name, body=body), moves=DELIVERY),)
