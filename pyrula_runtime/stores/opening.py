"""The one door to a store: a URL in, a store out; the driver of a scheme is imported only when it is asked for."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from pyrula_runtime.core.errors import ConfigurationError
from pyrula_runtime.stores.clock import Clock, SystemClock
from pyrula_runtime.stores.protocol import Store

_VALKEY = ("valkey", "redis", "valkeys", "rediss", "unix")
_SQLITE_FORMS = "sqlite:////absolute/path.db or sqlite:///relative.db"
_FORMS = f"{_SQLITE_FORMS}, valkey://host:6379/0, valkeys://host:6379/0 (TLS) or unix:///path/to/valkey.sock"


def open_store(url: str, *, clock: Clock | None = None, shard_count: int | None = None) -> Store:
    """The store at `url`, not yet connected (`await store.open()` does that). Raises ConfigurationError.

    `shard_count` is for stores that can have several shards; None leaves the number as it is.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        raise ConfigurationError([f"the store URL has no scheme; write {_FORMS}"])  # it may hold a password
    if scheme in _VALKEY:
        return _valkey(url, clock, shard_count)
    if scheme != "sqlite":
        raise ConfigurationError([f"store URL scheme {scheme!r} is unknown; use {_FORMS}"])
    return _sqlite(url, rest, clock or SystemClock())


def _valkey(url: str, clock: Clock | None, shard_count: int | None) -> Store:
    from pyrula_runtime.stores.valkey.store import ValkeyStore

    return ValkeyStore(url, clock, shard_count=shard_count)  # without a clock for tests, time is the server's


def _sqlite(url: str, rest: str, clock: Clock) -> Store:
    host, slash, tail = rest.partition("/")
    path, _, query = tail.partition("?")
    file = unquote(path)
    if host or not slash or not Path(file).name or file == ":memory:" or "\0" in file:
        raise ConfigurationError([f"the sqlite:// store URL names no file on this host; write {_SQLITE_FORMS}"])
    if query:
        raise ConfigurationError(
            ["the sqlite:// store URL has parameters, but SQLite stores take none; drop what follows '?'"]
        )
    from pyrula_runtime.stores.sqlite.store import SqliteStore

    return SqliteStore(Path(file), clock)
