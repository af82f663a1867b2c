"""What a user must be permitted: all commands that stand in any script, and who lacks one hears which, at once."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyrula_runtime.core.errors import StoreRefused, StoreUnavailable
from pyrula_runtime.stores.valkey import scripts
from pyrula_runtime.stores.valkey.address import Address
from pyrula_runtime.stores.valkey.store import ValkeyStore
from tests.store.valkey.conftest import QUICK
from tests.store.valkey.servers import Server, kinds_of_server, shared

Opened = Callable[..., Awaitable[ValkeyStore]]

LUA = Path(scripts.__file__).parent / "lua"
TEXTS = {path.name: path.read_text("utf-8") for path in LUA.rglob("*.lua")}
COMMANDS = sorted({word for text in TEXTS.values() for word in re.findall(r"call\('([A-Z]+)'", text)})
OLD = "redis60"  # cannot be asked what a user may
NEWER = [kind for kind in kinds_of_server() if kind != OLD]


def listed(name: str) -> list[str]:
    """The commands that stand in a script, called or not."""
    return sorted(set(re.findall(r"'([A-Z]{3,})'", TEXTS[name])))


def writes() -> list[str]:
    told: Any = shared("valkey").ask("COMMAND", "INFO", *COMMANDS)
    return sorted(name.decode().upper() for name, _, flags, *_ in told if b"write" in flags)


@contextmanager
def user_of(server: Server, *rules: str) -> Iterator[Address]:
    """A user with these rights, in a namespace of its own."""
    name = os.urandom(6).hex()
    server.ask("ACL", "SETUSER", name, "on", ">secret", "~py:*", "+@all", *rules)
    yield replace(server.address(name), user=name, password="secret")
    server.ask("ACL", "DELUSER", name)


def test_all_commands_of_scripts_are_asked_for() -> None:
    assert listed("rights.lua") == COMMANDS
    others = [text for name, text in TEXTS.items() if name != "ping.lua"]
    assert not re.search(r"\bcall\([^'c]", "".join(others)), "a command that no search finds"


def test_a_ping_does_all_that_scripts_write() -> None:
    assert set(writes()) <= set(listed("ping.lua"))


@pytest.mark.parametrize("kind", NEWER)
async def test_who_lacks_a_command_is_refused_and_told_which(kind: str) -> None:
    server = shared(kind)
    with user_of(server, "&py:*") as user:
        for command in COMMANDS:
            server.ask("ACL", "SETUSER", str(user.user), f"-{command}")
            with pytest.raises(StoreRefused, match=rf"does not permit this user .*it may not {command}\b"):
                await ValkeyStore(user, None, QUICK).open()
            server.ask("ACL", "SETUSER", str(user.user), f"+{command}")
        server.ask("ACL", "SETUSER", str(user.user), "-lpop", "-unlink", "-zscore")
        with pytest.raises(StoreRefused, match="it may not LPOP, UNLINK, ZSCORE"):
            await ValkeyStore(user, None, QUICK).open()


async def test_an_old_server_is_tried_by_each_ping(opened: Opened) -> None:
    server = shared(OLD)
    with user_of(server) as user:
        store = await opened(user)
        await store.ping()
        for command in writes():
            server.ask("ACL", "SETUSER", str(user.user), f"-{command}")
            with pytest.raises(StoreUnavailable, match="does not permit this user"):
                await store.ping()
            server.ask("ACL", "SETUSER", str(user.user), f"+{command}")
        await store.ping()
        await store.close()
