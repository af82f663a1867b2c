"""What users put into a store, on its way there and back: JSON, and around it the user's own codec, if there is one.

A codec sees bytes and gives bytes; most of them encrypt. What passes through it are inputs, results, outcomes of
operations, what errors say, signals, and what a run shows and tells. What does not is the frame in which they stand:
names, kinds, times, types of errors. So whoever has no key can still list runs, send them on or cancel them, and the
clerk, which has no code of the user's, needs none.

A document that went through a codec begins with a byte that no JSON document begins with. So a codec can be brought in
while runs are under way, and what was stored before stays readable.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import orjson

from pyrula_runtime.core.entries import Entry, Json
from pyrula_runtime.core.errors import CodecFailed, ErrorRecord
from pyrula_runtime.engine import codec as forms
from pyrula_runtime.stores.protocol import Claim, Received

_MARK = b"\x01"
# in the place of a value, or of what an error says: the encoded document, in base 64
_SEALED = "x"

_NO_CODEC = (
    "it was encoded by a codec, and none is set here: start workers and commands with PYRULA_CODEC=module:attribute, "
    "and give a client codec="
)


class Codec(Protocol):
    """What every payload passes through on its way to the store and back; called on any thread, and must not block."""

    def encode(self, payload: bytes) -> bytes:
        """What is stored in the place of this JSON document."""

    def decode(self, payload: bytes) -> bytes:
        """The document back; an exception if it is none of this codec's, or was changed."""


class Payloads:
    """How one worker or client writes and reads payloads.

    Raises CodecFailed where the codec fails or is missing; with `stand_in` that gives what is read instead.
    """

    def __init__(self, codec: Codec | None = None, *, stand_in: Callable[[CodecFailed], str] | None = None) -> None:
        self._codec = codec
        self._stand_in = stand_in

    def for_people(self) -> Payloads:
        """The same, but what cannot be read is replaced by the reason in angle brackets."""
        return Payloads(self._codec, stand_in=lambda failed: f"<{failed}>")

    # documents

    def opened(self, claim: Claim) -> Claim:
        """The claim with the documents that its turn reads; its journal is read entry by entry."""
        documents = (claim.input, *(each.body for each in claim.inbox))
        if self._codec is None and not any(each.startswith(_MARK) for each in documents):
            return claim
        return replace(claim, input=self.open(claim.input), inbox=self.opened_letters(claim.inbox))

    def opened_letters(self, letters: Sequence[Received]) -> tuple[Received, ...]:
        """Messages with their documents."""
        return tuple(replace(each, body=self.open(each.body)) for each in letters)

    def seal(self, document: bytes) -> bytes:
        """A JSON document as it is stored."""
        if self._codec is None:
            return document
        try:
            return _MARK + self._codec.encode(document)
        except Exception as error:
            raise CodecFailed(f"the codec cannot encode: {type(error).__name__}: {error}") from error

    def open(self, stored: bytes) -> bytes:
        """The JSON document."""
        if not stored.startswith(_MARK):
            return stored
        try:
            return self._decoded(stored[len(_MARK) :])
        except CodecFailed as failed:
            if self._stand_in is None:
                raise
            return orjson.dumps(self._stand_in(failed))

    def _decoded(self, encoded: bytes) -> bytes:
        if self._codec is None:
            raise CodecFailed(_NO_CODEC)
        try:
            return self._codec.decode(encoded)
        except Exception as error:
            raise CodecFailed(f"the codec cannot decode it: {type(error).__name__}: {error}") from error

    def dump_json(self, value: Json) -> bytes:
        """A value as it is stored; InputError names what JSON cannot hold."""
        return self.seal(forms.dump_json(value))

    def load_json(self, stored: bytes) -> Json:
        """The value of what is stored; InputError if it is no JSON."""
        return forms.load_json(self.open(stored))

    # errors

    def dump_error(self, error: ErrorRecord) -> bytes:
        """An error as it is stored: its type and details are part of the frame."""
        return orjson.dumps(self._error_to_json(error))

    def load_error(self, stored: bytes) -> ErrorRecord:
        """The error back."""
        return forms.load_error(self._open_error(orjson.loads(stored)))

    def _error_to_json(self, error: ErrorRecord) -> dict[str, Any]:
        tree = forms.error_to_json(error)
        if self._codec is not None:
            tree[_SEALED] = self._to_text({"message": tree.pop("message"), "traceback": tree.pop("traceback")})
        return tree

    def _open_error(self, tree: dict[str, Any]) -> dict[str, Any]:
        if _SEALED not in tree:
            return tree
        said = self._from_text(tree[_SEALED])
        return tree | (said if isinstance(said, dict) else {"message": str(said), "traceback": ""})

    # entries

    def dump_entry(self, entry: Entry) -> bytes:
        """A journal entry as it is stored."""
        if self._codec is None:
            return forms.dump_entry(entry)
        tree = forms.entry_to_json(entry)
        if "v" in tree:
            tree[_SEALED] = self._to_text(tree.pop("v"))
        if "e" in tree:
            tree["e"] = self._error_to_json(forms.load_error(tree["e"]))
        return orjson.dumps(tree)

    def load_entry(self, stored: bytes) -> Entry:
        """A journal entry back; ValueError for a kind that this version does not know."""
        tree = orjson.loads(stored)
        if _SEALED in tree:
            tree["v"] = self._from_text(tree[_SEALED])
        if "e" in tree:
            tree["e"] = self._open_error(tree["e"])
        return forms.entry_from_json(tree)

    def _to_text(self, value: Json) -> str:
        return base64.b64encode(self.dump_json(value)).decode()

    def _from_text(self, text: str) -> Json:
        return self.load_json(base64.b64decode(text))


def written_ms(entry: bytes) -> int:
    """When a journal entry was written, whatever it is."""
    at_ms: int = orjson.loads(entry)["at"]
    return at_ms


def value_as_stored(entry: bytes) -> bytes:
    """The value of a journal entry as a document of its own, encoded as it is."""
    tree = orjson.loads(entry)
    return base64.b64decode(tree[_SEALED]) if _SEALED in tree else orjson.dumps(tree["v"])


def renumbered(entry: bytes, message: int) -> bytes:
    """A journal entry with another number of the message that brought it, if one did; its value stays as it is."""
    tree = orjson.loads(entry)
    return orjson.dumps(tree | {"i": message}) if "i" in tree else entry


# of whoever has no codec
PLAIN = Payloads()
