"""Journal entries, errors and what is held against a run as bytes: one JSON document each, never pickle.

The letters under `k` are stored for ever; a new kind gets a new letter and an old one keeps its meaning. A record of
blame has the names of its fields, without those that say nothing; what a newer version has added to it is passed over.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import orjson

from pyrula_runtime.core.blame import NOTHING, Cause, Charge, Evidence, Mark, Record
from pyrula_runtime.core.entries import (
    AttemptFailed,
    CancelRequested,
    Completed,
    DeadlinePassed,
    Entry,
    Failed,
    Forked,
    Json,
    Op,
    OpEntry,
    OpKind,
    Requeued,
    Resumed,
    Started,
    Withdrawn,
)
from pyrula_runtime.core.errors import ErrorRecord, InputError
from pyrula_runtime.core.tree import OnEnd
from pyrula_runtime.stores.protocol import Dossier

Fact = TypeVar("Fact", Evidence, Mark)


def dump_json(value: Json) -> bytes:
    """JSON bytes; InputError names what JSON cannot hold."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        raise InputError(f"not JSON: {error}") from error


def load_json(raw: bytes) -> Json:
    """The value of a JSON document; InputError if it is none."""
    try:
        value: Json = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise InputError(f"not JSON: {error}") from error
    return value


def error_to_json(error: ErrorRecord) -> dict[str, Any]:
    """An error as a JSON object."""
    return {"type": error.type, "message": error.message, "traceback": error.traceback, "detail": error.detail}


def dump_error(error: ErrorRecord) -> bytes:
    """An error as bytes, for a run's error."""
    return orjson.dumps(error_to_json(error))


def load_error(raw: bytes | dict[str, Any]) -> ErrorRecord:
    """An error back from bytes or from its JSON object."""
    tree = orjson.loads(raw) if isinstance(raw, bytes) else raw
    return ErrorRecord(
        type=tree["type"], message=tree["message"], traceback=tree.get("traceback", ""), detail=tree.get("detail", {})
    )


def dump_entry(entry: Entry) -> bytes:
    """One journal entry as bytes."""
    return orjson.dumps(entry_to_json(entry))


def entry_to_json(entry: Entry) -> dict[str, Any]:
    """One journal entry as a JSON object: what a user's code gave stands under `v`, an error under `e`."""
    tree: dict[str, Any] = {"at": entry.at_ms}
    match entry:
        case Completed(value=value):
            tree |= {"k": "v", "v": value}
        case Failed(error=error):
            tree |= {"k": "e", "e": error_to_json(error)}
        case Withdrawn():
            tree["k"] = "w"
        case Started(child_id=child_id, on_end=on_end):
            tree |= {"k": "s", "c": child_id, "p": on_end}
        case AttemptFailed(number=number, error=error, retry_at_ms=retry_at):
            tree |= {"k": "a", "n": number, "e": error_to_json(error), "r": retry_at}
        case CancelRequested():
            tree["k"] = "c"
        case DeadlinePassed():
            tree["k"] = "d"
        case Requeued(void_from=void_from, has_ended=has_ended):
            tree |= {"k": "q", "f": void_from} | ({"l": True} if has_ended else {})
        case Resumed():
            tree["k"] = "r"
        case Forked(source=source, started_ms=started_ms):
            tree |= {"k": "f", "r": source, "s": started_ms}
    if isinstance(entry, Completed | Failed) and entry.message:
        tree["i"] = entry.message
    if isinstance(entry, OpEntry):
        tree |= {"o": entry.op.op_id, "t": entry.op.kind, "m": entry.op.name}
    return tree


def load_entry(raw: bytes) -> Entry:
    """One journal entry from bytes; ValueError for a kind that this version does not know."""
    return entry_from_json(orjson.loads(raw))


def entry_from_json(tree: dict[str, Any]) -> Entry:
    """One journal entry from its JSON object; ValueError for a kind that this version does not know."""
    at, kind = tree["at"], tree["k"]
    if kind == "c":
        return CancelRequested(at_ms=at)
    if kind == "d":
        return DeadlinePassed(at_ms=at)
    if kind == "q":
        return Requeued(at_ms=at, void_from=tree["f"], has_ended=tree.get("l", False))
    if kind == "r":
        return Resumed(at_ms=at)
    if kind == "f":
        return Forked(at_ms=at, source=tree["r"], started_ms=tree["s"])
    op = Op(op_id=tree["o"], kind=OpKind(tree["t"]), name=tree["m"])
    if kind == "v":
        return Completed(op=op, at_ms=at, value=tree["v"], message=tree.get("i", 0))
    if kind == "w":
        return Withdrawn(op=op, at_ms=at)
    if kind == "s":
        return Started(op=op, at_ms=at, child_id=tree["c"], on_end=OnEnd(tree["p"]))
    if kind == "e":
        return Failed(op=op, at_ms=at, error=load_error(tree["e"]), message=tree.get("i", 0))
    if kind == "a":
        return AttemptFailed(op=op, at_ms=at, number=tree["n"], error=load_error(tree["e"]), retry_at_ms=tree["r"])
    raise ValueError(f"journal entry of unknown kind {kind!r}: written by a newer version of Pyrula")


def dump_record(record: Record) -> bytes:
    """What is held against a run as bytes; nothing is no bytes."""
    return orjson.dumps(_said(record)) if record != NOTHING else b""


def load_record(raw: bytes) -> Record:
    """What is held against a run, back from bytes."""
    if not raw:
        return NOTHING
    tree = orjson.loads(raw)
    charges = (
        Charge(at_ms=each["at_ms"], evidence=_heard(Evidence, each["evidence"])) for each in tree.get("charges", ())
    )
    marks = (_heard(Mark, each) for each in tree.get("marks", ()))
    return Record(charges=tuple(charges), marks=tuple(marks), is_suspect=tree.get("is_suspect", False))


def dossier_of(record: Record) -> Dossier:
    """A record as a store keeps it."""
    return Dossier(record=dump_record(record), is_suspect=record.is_suspect)


def _said(value: Any) -> dict[str, Any]:
    said = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    defaults = {each.name: each.default for each in dataclasses.fields(value)}
    return {name: _plain(one) for name, one in said.items() if one != defaults[name]}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_said(each) for each in value]
    return _said(value) if dataclasses.is_dataclass(value) else value


def _heard(kind: type[Fact], tree: dict[str, Any]) -> Fact:
    known = {each.name: tree[each.name] for each in dataclasses.fields(kind) if each.name in tree}
    # a cause that only a newer version tells apart is one that we do not know
    return kind(**(known | {"cause": Cause(known["cause"]) if known["cause"] in set(Cause) else Cause.killed}))
