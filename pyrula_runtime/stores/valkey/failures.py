"""The one seam where the server's errors become ours: what happened, and what the operator should do.

An error reply says that a command was not run, or a script not begun or broken off; the code in front says why.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyrula_runtime.core.errors import PyrulaError, StoreRefused, StoreUnavailable

MOVED = "MOVED"  # the keys of this call are on the node it names, and nothing was run
UNSENT = "NOSCRIPT"  # the server does not know the script: nothing was run, it is sent again with its text
_PASSING = {
    "LOADING": "it is still reading its data; pyrula goes on by itself",
    "BUSY": "a script of somebody keeps it busy; if it does not end, use SCRIPT KILL",
    "READONLY": "it is a replica now; pyrula goes on when the address leads to the primary again",
    "MASTERDOWN": "it is a replica that lost its primary; pyrula goes on when there is one",
    "CLUSTERDOWN": "its cluster is not complete; pyrula goes on when it is",
    "TRYAGAIN": "a slot of its cluster is being moved; pyrula goes on by itself",
    "MOVED": "it is a node of a cluster, and these keys are on another one",
    "ASK": "a slot of its cluster is being moved; pyrula goes on by itself",
    "OOM": "it has reached its maxmemory; give it more or free some, pyrula goes on by itself",
    "MISCONF": "it cannot save to its disk; see its log, pyrula goes on by itself",
    "NOREPLICAS": "it has fewer replicas than it must; pyrula goes on when they are back",
    "EXECABORT": "it refused the transaction",
}
_FINAL = {
    "NOAUTH": "wants a password; put one into the store URL",
    "WRONGPASS": "does not accept this user and password",
    "NOPERM": "does not permit this user what pyrula needs: scripts, and all keys and channels that begin with 'py:'",
}
# what a script says that may not do what it must, by the server's age
_DENIED = ("NOPERM", "ACL failure in script", "user executing the script can't")
HANGS_UP = frozenset({"READONLY", "MASTERDOWN", "LOADING", "CLUSTERDOWN"})  # a new connection may lead elsewhere


def code_of(error: Exception) -> str:
    """The first word of an error reply."""
    return str(error).partition(" ")[0]


def ours(error: Exception, place: str) -> PyrulaError:
    """A fresh error of ours for an error reply; `error` becomes its cause."""
    text = str(error)
    code = "NOPERM" if any(words in text for words in _DENIED) else code_of(error)
    found: PyrulaError
    if code in _FINAL:
        found = StoreRefused(f"the server at {place} {_FINAL[code]} ({text})")
    else:
        found = StoreUnavailable(f"store at {place}: {_advice(_PASSING, code, text)} ({text})")
    found.__cause__ = error
    return found


def passes(reply: object) -> bool:
    """Whether a reply is an error that goes away by itself."""
    return isinstance(reply, Exception) and code_of(reply) in _PASSING


def for_now(error: PyrulaError) -> PyrulaError:
    """The same error for those who have the store open: what a server does not permit now it may permit again."""
    if not isinstance(error, StoreRefused):
        return error
    found = StoreUnavailable(f"{error}; pyrula goes on when it may")
    found.__cause__ = error
    return found


def _advice(known: Mapping[str, str], code: str, text: str) -> str:
    inside = next((name for name in known if f"{name} " in text), code)  # servers before 7 wrap errors of scripts
    return known.get(code) or known.get(inside) or "it refused the command"


def unconfirmed(place: str, replicas: int) -> StoreUnavailable:
    """What is said when the strict profile is not kept."""
    return StoreUnavailable(
        f"the store at {place} has written it, but fewer than {replicas} replicas have confirmed that; see to them, "
        f"pyrula repeats the call"
    )


def gone(place: str, why: str) -> StoreUnavailable:
    """What is said to calls whose answer will not come any more."""
    return StoreUnavailable(f"the connection to the store at {place} was lost: {why}; pyrula connects again by itself")
