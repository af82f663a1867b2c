"""Where a server is, and what of it may be shown: a URL in, a value out.

    valkey://user:password@host:6379/0?namespace=production     redis:// is the same
    valkeys://…  rediss://…                                     with TLS
    unix:///run/valkey.sock?db=0

The parameters for TLS have the names that other clients gave them, so that a URL serves both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from pyrula_runtime.core.errors import ConfigurationError

PLAIN, TLS, UNIX = ("valkey", "redis"), ("valkeys", "rediss"), ("unix",)
SCHEMES = (*PLAIN, *TLS, *UNIX)
FORMS = "valkey://host:6379/0, valkeys://host:6379/0 (TLS) or unix:///path/to/valkey.sock"
_NAMESPACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PARAMETERS = {
    "namespace",
    "db",
    "ssl_ca_certs",
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_cert_reqs",
    "persistence",
    "durability",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """How the server proves who it is, and we to it. Paths of PEM files; None for the system's authorities."""

    ca_certs: str | None = None
    certfile: str | None = None
    keyfile: str | None = None
    verify: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """One server as a URL names it. The password is not in the repr."""

    host: str = ""
    port: int = 6379
    path: str = ""  # of a Unix socket; then there is no host
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    db: int = 0
    tls: Tls | None = None
    namespace: str = "default"
    strict: bool = False  # nothing is answered before it is on disk, and on a replica where there is one
    unverified: bool = False  # the operator vouches for the server's persistence

    @property
    def place(self) -> str:
        """Host and port, or the path, for messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.path or f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The address without secrets."""
        query = f"?namespace={self.namespace}"
        if self.path:
            return f"unix://{quote(self.path)}{query}&db={self.db}"
        return f"{'valkeys' if self.tls else 'valkey'}://{self.place}/{self.db}{query}"

    @property
    def tag(self) -> str:
        """What every key of this store begins with."""
        return f"py:{{{self.namespace}:0}}:"


def parse(url: str) -> Address:
    """The address in a URL; ConfigurationError says what is wrong with it, and never repeats a password."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise _refused("has brackets that hold no IPv6 address") from None
    if parts.scheme not in UNIX and "@" in f"{parts.path}{parts.query}{parts.fragment}":
        # and what looks like a parameter is half a password
        raise _refused("has a '/', '?' or '#' before its '@'; in a password write them as %2F, %3F and %23")
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := sorted(given.keys() - _PARAMETERS):
        raise _refused(f"has parameters that are not known: {', '.join(unknown)}; known are {_known()}")
    namespace = given.get("namespace", "default")
    if not _NAMESPACE.fullmatch(namespace):
        raise _refused(
            "has a namespace that is not 1 to 64 letters, digits, '.', '_' or '-', the first a letter or digit"
        )
    if given.get("persistence", "verified") not in ("verified", "unverified"):
        raise _refused("has persistence that is neither 'verified' nor 'unverified'")
    if given.get("durability", "standard") not in ("standard", "strict"):
        raise _refused("has a durability that is neither 'standard' nor 'strict'")
    try:
        port = parts.port or 6379
    except ValueError:
        raise _refused("has a port that is not a number up to 65535") from None
    is_unix = parts.scheme in UNIX
    if is_unix == bool(parts.hostname) or (is_unix and not unquote(parts.path).strip("/")):
        raise _refused(f"names no server; write {FORMS}")
    return Address(
        host=parts.hostname or "",
        port=port,
        path=unquote(parts.path) if is_unix else "",
        user=unquote(parts.username) if parts.username else None,
        password=None if parts.password is None else unquote(parts.password),
        db=_db(given.get("db") if is_unix or "db" in given else parts.path.strip("/")),
        tls=_tls(given) if parts.scheme in TLS else None,
        namespace=namespace,
        strict=given.get("durability") == "strict",
        unverified=given.get("persistence") == "unverified",
    )


def _known() -> str:
    return ", ".join(sorted(_PARAMETERS))


def _refused(what: str) -> ConfigurationError:
    return ConfigurationError([f"the store URL {what}"])


def _db(text: str | None) -> int:
    if text and not text.isdecimal():
        raise _refused("has a database that is not a number")
    return int(text or 0)


def _tls(given: Mapping[str, str]) -> Tls:
    wanted = given.get("ssl_cert_reqs", "required")
    if wanted not in ("required", "none"):
        raise _refused("has ssl_cert_reqs that is neither 'required' nor 'none'")
    return Tls(
        ca_certs=given.get("ssl_ca_certs"),
        certfile=given.get("ssl_certfile"),
        keyfile=given.get("ssl_keyfile"),
        verify=wanted == "required",
    )
