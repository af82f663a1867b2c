"""Where a client finds its store: the environment's, else the program's, else the embedded file of this user."""

from __future__ import annotations

import os

from pyrula_runtime.settings import Settings
from pyrula_runtime.stores import opening
from pyrula_runtime.stores.protocol import Store


def open_store(url: str | None = None, *, default: str | None = None) -> Store:
    """The store at `url`; else at PYRULA_STORE_URL; else at `default`; else the embedded SQLite file.

    Returns at once: the store is opened by its first use. Raises ConfigurationError if the address cannot be one.
    """
    return opening.open_store(Settings.from_env(os.environ, store_url=url).store_url_or(default))
