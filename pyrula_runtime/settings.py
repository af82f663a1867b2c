"""Where a process finds its store, its probes and its name: read once from the environment, at the edge.

Settings are about a place, options about behaviour; both are told, parsed and checked alike. Nothing below the command
line reads the environment except through the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pyrula_runtime.options import HOUR_S, Option, faults_in, given, option, refuse, table_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The places and names of one process. What may hold a secret is not in the repr."""

    state_home: Path
    store_url: str | None = option(
        None,
        "URL of the store: sqlite:////path.db or valkey://host:6379/0; unset, an SQLite file under the state home.",
        kind=str,
        flag="--store",
        shown=False,
    )
    valkey_namespace: str | None = option(
        None, "Prefix of every key, so that environments can share one Valkey.", kind=str
    )
    postgres_dsn: str | None = option(None, "Database that archives finished runs.", kind=str, flag="", shown=False)
    health_port: int | None = option(
        None,
        "Port of the probes, 0 for any free one; unset, no probes.",
        kind=int,
        low=0,
        high=65_535,
        env="PYRULA_WORKER_HEALTH_PORT",
    )
    health_host: str = option("127.0.0.1", "Address the probes listen on.", env="PYRULA_WORKER_HEALTH_HOST")
    worker_id: str | None = option(None, "Name of this worker that outlives restarts, such as a pod's.", kind=str)
    runtime_name: str | None = option(None, "Name of this deployment, for people.", kind=str)
    cloud_api_key: str | None = option(None, "Key for Pyrula Cloud.", kind=str, flag="", shown=False)
    cloud_drain_deadline_s: float = option(
        5.0, "How long a drain lets unsent Cloud events go out.", flag="", unit="s", low=0, high=HOUR_S
    )

    def __post_init__(self) -> None:
        """Refuse what is absurd."""
        refuse(_faults({each.key: getattr(self, each.field) for each in SETTINGS}))

    @classmethod
    def from_env(cls, environ: Mapping[str, str], **overrides: Any) -> Settings:
        """Read the settings from an environment; `overrides` (by `Option.key`, as text or value) win unless None."""
        values = given(SETTINGS, environ, overrides)
        values["state_home"] = Path(values["state_home"] or Path(environ.get("HOME") or Path.home(), ".local", "state"))
        refuse(_faults(values))
        return cls(**values)

    def store_url_or(self, default: str | None = None) -> str:
        """The store's URL: as set, else the caller's default, else the embedded store of this user."""
        url = self.store_url or default or f"sqlite:///{self.state_home / 'pyrula' / 'pyrula.db'}"
        return _in_namespace(url, self.valkey_namespace)

    def unserved_warnings(self) -> tuple[str, ...]:
        """One sentence for each setting that this version understands but cannot serve."""
        unserved = (
            ("PYRULA_POSTGRES_DSN", self.postgres_dsn, "finished runs stay in the store and are not archived"),
            ("PYRULA_CLOUD_API_KEY", self.cloud_api_key, "nothing is reported to Pyrula Cloud"),
        )
        return tuple(
            f"{name} is set, but this version does not serve it yet: {effect}; unset it to end this warning"
            for name, value, effect in unserved
            if value
        )


_STATE_HOME = Option(
    name="state_home",
    help="Folder for what has to survive restarts; unset, ~/.local/state.",
    kind=str,
    default=None,
    flag="",
    env="XDG_STATE_HOME",
)
SETTINGS: tuple[Option, ...] = (_STATE_HOME, *table_of(Settings))


def _faults(values: Mapping[str, Any]) -> Iterator[str]:
    state_home: Path = values["state_home"]
    if not state_home.is_absolute():
        yield f"{_STATE_HOME.title} is '{state_home}', but must be an absolute path"
    yield from faults_in(SETTINGS[1:], values).values()


def _in_namespace(url: str, namespace: str | None) -> str:
    """The URL with the namespace, if its kind of store has such and it names none itself."""
    scheme, _, rest = url.partition("://")
    if namespace is None or scheme == "sqlite" or "namespace=" in rest.partition("?")[2]:
        return url
    return f"{url}{'&' if '?' in rest else '?'}namespace={quote(namespace)}"
