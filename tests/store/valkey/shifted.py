"""A store on a server whose clock somebody sets: its scripts see the server's time moved by as much as a key says.

The clock of a process cannot be set from outside without a library that not every machine has, and what is to be seen
is what the scripts make of the time that the server tells them.
"""

from __future__ import annotations

import hashlib

from pyrula_runtime.stores.valkey.address import parse
from pyrula_runtime.stores.valkey.scripts import Script
from pyrula_runtime.stores.valkey.store import ValkeyStore
from tests.store.valkey.servers import Server

_JUMP = "jump"
_SHIFTS = b"""
local server = redis
local redis = {pcall = redis.pcall, acl_check_cmd = redis.acl_check_cmd, call = function(command, ...)
  if command ~= 'TIME' then return server.call(command, ...) end
  local t = server.call('TIME')
  return {t[1] + (server.call('GET', '%s') or 0), t[2]}
end}
"""


def _shifted(script: Script) -> Script:
    text = _SHIFTS.replace(b"%s", _JUMP.encode()) + script.text
    return Script(script.name, text, hashlib.sha1(text, usedforsecurity=False).hexdigest().encode())


class Shifted(ValkeyStore):
    """A store that goes by a clock which `set_clock` sets."""

    async def open(self) -> None:
        await super().open()
        self._scripts = {name: _shifted(script) for name, script in self._scripts.items()}


def set_clock(server: Server, seconds: int) -> None:
    """Set the server's clock forward, or back if negative, from what it really is."""
    assert server.ask("SET", _JUMP, seconds) == b"OK"


def shifted(server: Server) -> Shifted:
    """A store on this server."""
    return Shifted(parse(server.url()))
