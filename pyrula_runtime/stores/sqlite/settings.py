"""The store's own measures, in one place; tests make them small, users never see them."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyrula_runtime.stores.sqlite.hosts import Host, this_host


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Times in seconds, sizes in bytes or pages of 4 KiB."""

    host: Host = field(default_factory=this_host)
    host_watch_s: float = 35.0  # more than three idle signs of life of another host
    open_patience_s: float = 10.0  # for the write lock, when opening
    glance_s: float = 5.0  # for a look at the file's soundness after a reboot
    ping_s: float = 2.0  # for the write lock, before the store counts as unavailable
    read_s: float = 1.0  # a longer read would let the log grow
    checkpoint_pages: int = 4_000
    truncate_bytes: int = 64 * 1024 * 1024
    ballast_bytes: int = 32 * 1024 * 1024
