"""Identities: of a run, of workflows and steps by their names, of an operation inside a run.

Names stand in journals, commands, URLs and logs for a long time, so they are kept plain.

A run id is 26 characters of Crockford base 32, time first, so that ids sort by age and a listing needs no extra index.
An operation's id is its branch, its name and its count there (`ship_all()#1/charge#2`): it depends on the code's own
structure alone and so is the same in every replay. A slash in a name is written `%2F`: no name can pass for a branch.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field

from pyrula_runtime.core.errors import UsageError

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_NAME = re.compile(r"\w[\w .:-]{0,127}")


def run_id(now_ms: int, entropy: bytes) -> str:
    """A fresh run id from the time (10 characters) and 10 random bytes (16 characters)."""
    number = (now_ms << 80) | int.from_bytes(entropy[:10], "big")
    return "".join(_ALPHABET[(number >> shift) & 31] for shift in range(125, -1, -5))


def checked_run_id(value: object) -> str:
    """The id a caller chose, if it can be one; UsageError otherwise."""
    if not isinstance(value, str) or not _RUN_ID.fullmatch(value):
        raise UsageError(
            f"run id {value!r} must be 1 to 128 letters, digits, '.', '_', ':' or '-' and begin with a letter or digit"
        )
    return value


def checked_name(name: object, kind: str) -> str:
    """The name, if a workflow or step (the `kind`) can be called so; UsageError otherwise."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(
            f"{kind} name {name!r} must be 1 to 128 letters, digits, '_', '.', ':', '-' or spaces, and begin with a "
            f"letter, digit or '_'"
        )
    return name


def event_key(name: str, event_id: str) -> str:
    """What a store knows an event by: an order's id may well be that of its payment too. No name has a slash."""
    return f"{name}/{event_id}"


def event_id_of(name: str, key: str) -> str:
    """The id with which an event of this name was told."""
    return key.removeprefix(f"{name}/")


def input_digest(workflow: str, input_json: bytes) -> str:
    """What makes two submits the same for an idempotency key: the workflow's name and the exact input."""
    return hashlib.blake2b(workflow.encode() + b"\0" + input_json, digest_size=16).hexdigest()


def derived_bytes(run: str, op_id: str) -> bytes:
    """32 bytes that belong to this operation of this run: the source of `ctx.uuid4` and `ctx.random`."""
    return hashlib.sha256(f"{run}\0{op_id}".encode()).digest()


@dataclass(slots=True)
class Branch:
    """One line of execution in a body: the root, or a task started in it; numbers what is called there."""

    path: str = ""
    _counts: dict[str, int] = field(default_factory=dict)

    def _number(self, name: str) -> str:
        count = self._counts[name] = self._counts.get(name, 0) + 1
        name = name.replace("%", "%25").replace("/", "%2F")
        return f"{self.path}/{name}#{count}" if self.path else f"{name}#{count}"

    def op_id(self, name: str) -> str:
        """The identity of the next operation of this name called in this branch."""
        return self._number(name)

    def fork(self, qualname: str) -> Branch:
        """The branch of a task that runs the coroutine function of this qualified name."""
        return Branch(self._number(f"{qualname}()"))
