"""What a run tells while it goes on, as facts of the store: each has a type and data, and gets a number there."""

from __future__ import annotations

from enum import StrEnum

from pyrula_runtime.core.entries import Json
from pyrula_runtime.engine.payloads import Payloads


class FactType(StrEnum):
    """What is told."""

    status = "status"  # its code set its status: the data is what it set
    journal_warning = "journal_warning"  # its journal has passed a fifth of a limit: the data says how far it is


def dump_fact(kind: FactType, data: Json, payloads: Payloads) -> bytes:
    """A fact as it is stored."""
    return payloads.dump_json({"type": kind.value, "data": data})


def load_fact(stored: bytes, payloads: Payloads) -> tuple[str, Json]:
    """Type and data of a fact; one that cannot be read here has the reason as its data."""
    tree = payloads.for_people().load_json(stored)
    if not isinstance(tree, dict):
        return "unreadable", tree
    return str(tree["type"]), tree["data"]
