"""From what a caller hands to `submit` to the run that is to be created."""

from __future__ import annotations

import math
import os
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from pyrula_runtime.client.submittable import Submittable
from pyrula_runtime.core.errors import IdempotencyConflict, InputError, LimitExceeded, UsageError
from pyrula_runtime.core.ids import checked_name, checked_run_id, input_digest
from pyrula_runtime.core.limits import HIGHEST_PRIORITY, entry_fault
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.codec import dump_json
from pyrula_runtime.engine.payloads import Payloads
from pyrula_runtime.forms.plain import plain_json
from pyrula_runtime.stores.protocol import NewRun, Store, Submission, Submitted

_MAX_KEY = 512
_LONGEST_DELAY_S = 100 * 366 * 86_400.0
_EPOCH = datetime.fromtimestamp(0, UTC)

Named = Submittable[Any] | str


def encode(value: Any, what: str) -> bytes:
    """A payload as JSON. Raises InputError if JSON cannot hold it, LimitExceeded if it is too large."""
    try:
        raw = dump_json(plain_json(value))
    except InputError as error:
        raise InputError(f"{what}: {error}") from error
    _check_size(raw, what)
    return raw


def sealed(document: bytes, what: str, payloads: Payloads) -> bytes:
    """A JSON document as it is stored. LimitExceeded if it is too large then; CodecFailed."""
    stored = payloads.seal(document)
    _check_size(stored, what)
    return stored


def _check_size(raw: bytes, what: str) -> None:
    if (fault := entry_fault(what, len(raw))) is not None:
        raise LimitExceeded(fault)


def name_of(workflow: Named) -> str:
    """The name under which a workflow is submitted; UsageError for what is none or could not be one."""
    if isinstance(workflow, str):
        return checked_name(workflow, "workflow")
    if not hasattr(workflow, "check_input"):
        raise UsageError(f"{workflow!r} is no workflow: decorate it with @workflow, or give the name of one")
    return workflow.name


def new_run(workflow: Named, given: Any, key: str | None, chosen_id: str | None, key_ttl_ms: int) -> NewRun:
    """The run to create, its input checked if the workflow's function is here; no id yet if the caller chose none."""
    name = name_of(workflow)
    raw = encode(given, f"the input of workflow {name!r}")
    tree = orjson.loads(raw)
    version = None
    if not isinstance(workflow, str):
        workflow.check_input(tree)
        version = workflow.version
    _check_key(key)
    return NewRun(
        run_id="" if chosen_id is None else checked_run_id(chosen_id),
        workflow=name,
        version=version,
        input=raw,
        # the order of an object's keys is an accident of the code that made it
        digest=input_digest(name, orjson.dumps(tree, option=orjson.OPT_SORT_KEYS)),
        status=RunStatus.queued,
        idempotency_key=key,
        idempotency_ttl_ms=key_ttl_ms,
    )


def placed(
    run: NewRun, priority: object, delay: float | timedelta | None, start_at: datetime | None, now_ms: int
) -> NewRun:
    """The run at its place in line: how soon a worker takes it, and from when on. UsageError for what is no place."""
    if isinstance(priority, bool) or not isinstance(priority, int) or abs(priority) > HIGHEST_PRIORITY:
        raise UsageError(f"priority={priority!r} must be a whole number from -{HIGHEST_PRIORITY} to {HIGHEST_PRIORITY}")
    if delay is not None and start_at is not None:
        raise UsageError("give delay= or start_at=, not both")
    start_ms = now_ms + _delay_ms(delay) if start_at is None else _moment_ms(start_at)
    if start_ms <= now_ms:
        return replace(run, priority=priority)
    return replace(run, priority=priority, start_at_ms=start_ms, status=RunStatus.waiting)


def _delay_ms(delay: object) -> int:
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    if seconds is None:
        return 0
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= _LONGEST_DELAY_S:
        raise UsageError(f"delay={delay!r} must be a number of seconds from 0 to a century, or a timedelta")
    return math.ceil(seconds * 1000)


def _moment_ms(start_at: object) -> int:
    if not isinstance(start_at, datetime) or start_at.utcoffset() is None:
        raise UsageError(f"start_at={start_at!r} must be a datetime that says its time zone")
    return math.ceil((start_at - _EPOCH) / timedelta(milliseconds=1))


def with_id(run: NewRun, store: Store) -> NewRun:
    """The run with an id that the store makes, unless the caller chose one."""
    return replace(run, run_id=run.run_id or fresh_id(store, run.idempotency_key))


def fresh_id(store: Store, key: str | None = None) -> str:
    """An id that no run has, for one that is submitted with this idempotency key."""
    return store.new_run_id(time.time_ns() // 1_000_000, os.urandom(10), key)


def sealed_run(run: NewRun, payloads: Payloads) -> NewRun:
    """The run with its input as it is stored."""
    return replace(run, input=sealed(run.input, f"the input of workflow {run.workflow!r}", payloads))


def _check_key(key: object) -> None:
    if key is not None and not (isinstance(key, str) and 0 < len(key) <= _MAX_KEY and key.isprintable()):
        raise UsageError(f"idempotency key {key!r} must be 1 to {_MAX_KEY} printable characters")


def accepted_id(run: NewRun, submitted: Submitted) -> str:
    """The id of the run that stands for the request; raises if another one has its key or its id."""
    if submitted.submission is not Submission.conflict:
        return submitted.run_id
    if run.idempotency_key is not None:
        raise IdempotencyConflict(run.idempotency_key, submitted.run_id)
    raise UsageError(f"run id {run.run_id!r} is taken by a run of another workflow or input; choose another id")
