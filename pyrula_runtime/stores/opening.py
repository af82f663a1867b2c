"""The one door to a store: a URL in, a store out; the driver of a scheme is imported only when it is asked for."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from pyrula_runtime.core.errors import ConfigurationError
from pyrula_runtime.stores.clock import Clock, SystemClock
from pyrula_runtime.stores.protocol import Store

_FORMS = "sqlite:////absolute/path.db or sqlite:///relative.db"
_LATER = ("valkey", "redis", "rediss")


def open_store(url: str, *, clock: Clock | None = None) -> Store:
    """The store at `url`, not yet connected (`await store.open()` does that). Raises ConfigurationError."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        raise ConfigurationError([f"store URL {url!r} has no scheme; write {_FORMS}"])
    if scheme in _LATER:
        raise ConfigurationError([f"this build does not serve {scheme}:// stores yet; use {_FORMS}"])
    if scheme != "sqlite":
        raise ConfigurationError([f"store URL scheme {scheme!r} is unknown; use {_FORMS}"])
    return _sqlite(url, rest, clock or SystemClock())


def _sqlite(url: str, rest: str, clock: Clock) -> Store:
    host, slash, tail = rest.partition("/")
    path, _, query = tail.partition("?")
    file = unquote(path)
    if host or not slash or not Path(file).name or file == ":memory:" or "\0" in file:
        raise ConfigurationError([f"store URL {url!r} names no file on this host; write {_FORMS}"])
    if query:
        raise ConfigurationError([f"store URL {url!r} has parameters, but SQLite stores take none; drop '?{query}'"])
    from pyrula_runtime.stores.sqlite.store import SqliteStore

    return SqliteStore(Path(file), clock)
