"""The example that encrypts: nothing of a secret stands in the store, and keys can be changed."""

from __future__ import annotations

import base64

import pytest
from cryptography.exceptions import InvalidTag

from examples.encryption.aes_gcm import AesGcm, keys_from

OLD, NEW = bytes(range(32)), bytes(range(32, 64))


def test_a_payload_comes_back_and_none_is_like_another() -> None:
    codec = AesGcm([OLD])
    first, second = codec.encode(b"secret"), codec.encode(b"secret")
    assert first != second
    assert b"secret" not in first
    assert codec.decode(first) == codec.decode(second) == b"secret"


def test_what_was_changed_is_refused_wherever_it_was() -> None:
    codec = AesGcm([OLD])
    stored = codec.encode(b"secret")
    for at in range(len(stored)):
        changed = stored[:at] + bytes([stored[at] ^ 1]) + stored[at + 1 :]
        with pytest.raises((InvalidTag, ValueError)):
            codec.decode(changed)


def test_a_new_key_writes_while_the_old_one_still_reads() -> None:
    before, between = AesGcm([OLD]).encode(b"secret"), AesGcm([NEW, OLD])
    assert between.decode(before) == b"secret"
    with pytest.raises(ValueError, match="there is no key"):
        AesGcm([OLD]).decode(between.encode(b"secret"))
    assert AesGcm([NEW]).decode(between.encode(b"secret")) == b"secret"
    with pytest.raises(ValueError, match="set PAYLOAD_KEYS"):
        AesGcm([])


def test_keys_come_from_the_environment_newest_first() -> None:
    told = ",".join(base64.b64encode(key).decode() for key in (NEW, OLD))
    assert keys_from({"PAYLOAD_KEYS": told}) == [NEW, OLD]
    assert keys_from({}) == []
