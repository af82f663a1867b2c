"""A codec that encrypts payloads with AES-256-GCM, so that only who has a key can read what a store keeps.

A payload begins with four bytes that say which key it was encrypted with. To change the key, put a new one in front of
the old one (`PAYLOAD_KEYS=NEW,OLD`); first append it where payloads are read, if not all processes start at once. An
old key can go when no run that was written with it is needed any more.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable, Mapping

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

# what NIST SP 800-38D recommends; random ones are good for 2^32 payloads of one key
_NONCE_BYTES = 12
_NAME_BYTES = 4


class AesGcm:
    """Encrypts each payload with a nonce of its own; what was changed, or is another key's, is refused."""

    def __init__(self, keys: Iterable[bytes]) -> None:
        """Keys of 32 bytes: the first one encrypts, all of them decrypt."""
        self._ciphers = {_name_of(key): AESGCM(key) for key in keys}
        if not self._ciphers:
            raise ValueError("there is no key; set PAYLOAD_KEYS")
        self._current = next(iter(self._ciphers))

    def encode(self, payload: bytes) -> bytes:
        """Key's name, nonce, ciphertext with its tag."""
        nonce = os.urandom(_NONCE_BYTES)
        return self._current + nonce + self._ciphers[self._current].encrypt(nonce, payload, self._current)

    def decode(self, payload: bytes) -> bytes:
        """The payload back; ValueError for an unknown key, InvalidTag for what was changed."""
        name, nonce, rest = (
            payload[:_NAME_BYTES],
            payload[_NAME_BYTES : _NAME_BYTES + _NONCE_BYTES],
            payload[_NAME_BYTES + _NONCE_BYTES :],
        )
        if name not in self._ciphers:
            raise ValueError(f"there is no key {name.hex()} here; add it to PAYLOAD_KEYS")
        return self._ciphers[name].decrypt(nonce, rest, name)


def _name_of(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()[:_NAME_BYTES]


def keys_from(environ: Mapping[str, str]) -> list[bytes]:
    """The keys of PAYLOAD_KEYS: base 64, with commas, the newest first."""
    return [base64.b64decode(each) for each in environ.get("PAYLOAD_KEYS", "").split(",") if each]
