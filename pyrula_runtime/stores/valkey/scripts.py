"""The scripts, read once, at import, from `lua/*.lua`: one verb, one file, put together with the parts it says it uses.

A part stands where it is used. The server makes a script's functions anew with every call, so what few calls need is
used inside the function or branch that needs it, and costs the others nothing. Nor does a server get a rare script
before it is called: whatever it has loaded is looked through again and again for what can be freed.

A guarded script, for tests, refuses to touch a key or channel without its own tag: on one server, and between two slots
of one node, such a mistake would go unnoticed until a cluster is moved.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "lua"
_USES = re.compile(r"^ *-- uses: (.+)$", re.MULTILINE)
_GUARD = """
local redis = {pcall = redis.pcall, acl_check_cmd = redis.acl_check_cmd, call = function(command, key, ...)
  if command == 'TIME' then return redis.call(command) end
  if string.sub(key, 1, #KEYS[1]) ~= KEYS[1] then error('key without the tag: ' .. command .. ' ' .. key) end
  return redis.call(command, key, ...)
end}
"""


@dataclass(frozen=True, slots=True)
class Script:
    """A script's text, and the digest by which a server that has it calls it."""

    name: str
    text: bytes
    sha: bytes


@cache
def _part(name: str) -> str:
    return _with_parts(_FOLDER / "parts" / f"{name}.lua")


def _with_parts(path: Path) -> str:
    return _USES.sub(lambda used: "\n".join(map(_part, used[1].split())), path.read_text("utf-8"))


def _put_together(path: Path, *, guarded: bool, publish: str) -> Script:
    whole = (_GUARD if guarded else "") + _with_parts(path)
    text = whole.replace("'PUBLISH'", f"'{publish}'").encode()
    return Script(path.stem, text, hashlib.sha1(text, usedforsecurity=False).hexdigest().encode())


@cache
def scripts(*, guarded: bool = False, publish: str = "PUBLISH") -> dict[str, Script]:
    """All scripts by name, publishing with the command that this kind of server wants."""
    paths = sorted(_FOLDER.glob("*.lua"))
    return {path.stem: _put_together(path, guarded=guarded, publish=publish) for path in paths}
