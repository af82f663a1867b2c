"""A systemd unit for a supervisor: everything in it was tried with a booted systemd 252 (Debian 12).

What is not obvious:
* `exit 143` in answer to a second SIGTERM would count as a failure without SuccessExitStatus; wrong configuration (78)
  would be started again and again without RestartPreventExitStatus.
* Black boxes live in the runtime directory and must survive a restart, but no more than that.
* A dynamic user is called as its unit unless it has a name, and each start hands the state directory over to its user:
  two units without User= would take the store away from each other.
* OOMPolicy=continue, because the default ends all workers when one of them is killed for its memory.
* Only the supervisor talks to systemd, so NotifyAccess stays main; and only it gets SIGTERM (KillMode=mixed), because
  it knows in which order the others have to go.
* ExecReload waits for the end of the reload, so `systemctl reload` fails when the new code does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyrula_supervisor.naming import DEFAULT_NAME, service_of

# characters that need no quotes in a command of a unit
_PLAIN = re.compile(r"[A-Za-z0-9_@:=+,./-]+")
# directories that ProtectHome=yes hides
_HOMES = ("/home", "/root", "/run/user")
# directories of which a service has its own (PrivateTmp, which DynamicUser brings)
_TEMPORARY = ("/tmp", "/var/tmp")
# from the end of the workers' drain to that of the supervisor, and from there until systemd's patience ends (seconds)
_BURIAL_S = 5
_SPARE_S = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """What the unit is for."""

    name: str
    python: str
    directory: Path
    args: Sequence[str]  # flags as they were given
    startup_s: float  # how long one process may take to start
    drain_s: float  # how long a worker's drain may last
    code: Sequence[str] = ()  # what else has to be readable: a venv's python is a link, and packages lie anywhere


def unit(daemon: Daemon) -> str:
    """The text of the unit."""
    command = (daemon.python, "-P", "-m", "pyrula_supervisor")
    is_default = daemon.name == DEFAULT_NAME
    named = () if is_default else ("--name", daemon.name)
    return _UNIT.format(
        about="" if is_default else f" ({daemon.name})",
        start=_spelled((*command, *daemon.args)),
        reload=_spelled((*command, "reload", "--wait", *named)),
        directory=str(daemon.directory).replace("%", "%%"),  # taken as it stands, but for %
        place=service_of(daemon.name),
        # five starts may fail, each at its limit, before the supervisor gives up
        start_s=round(6 * daemon.startup_s),
        end_s=round(daemon.drain_s + _BURIAL_S),
        stop_s=round(daemon.drain_s + _BURIAL_S + _SPARE_S),
        home=_home((daemon.python, str(daemon.directory), *daemon.code)),
        bound=_bound((str(daemon.directory), *daemon.code)),
    )


def _home(paths: Sequence[str]) -> str:
    """How much of home directories is to be seen: nothing, unless the code itself lives in one."""
    inside = next((path for path in paths for home in _HOMES if Path(path).is_relative_to(home)), None)
    if inside is None:
        return "ProtectHome=yes"
    return f"# {inside} is in a home directory: the service's user must be able to read it.\nProtectHome=read-only"


def _bound(paths: Sequence[str]) -> str:
    """What of the code has to be shown to the service all the same: what lies in a temporary directory."""
    inside = [path for path in dict.fromkeys(paths) if any(Path(path).is_relative_to(each) for each in _TEMPORARY)]
    if not inside:
        return ""
    note = "# A service has temporary directories of its own, and this code lies in one."
    return f"{note}\nBindReadOnlyPaths={_spelled(inside)}\n"


def _spelled(words: Sequence[str]) -> str:
    return " ".join(map(_word, words))


def _word(text: str) -> str:
    """One argument of a command, as systemd reads it: it splits, unquotes, and replaces % and $."""
    escaped = _escaped(text).replace("$", "$$")
    return escaped if _PLAIN.fullmatch(escaped) else f'"{escaped}"'


def _escaped(text: str) -> str:
    found = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return found.replace("\n", "\\n").replace("\t", "\\t")


_UNIT = """\
# Put this into /etc/systemd/system/{place}.service, then: systemctl daemon-reload && systemctl enable --now {place}
[Unit]
Description=Pyrula workers{about}
Documentation=https://docs.pyrula.io/
After=network-online.target
Wants=network-online.target

[Service]
Type=notify
NotifyAccess=main
ExecStart={start}
ExecReload={reload}
WorkingDirectory={directory}
# Store URL, keys and the like; the file needs to be readable by root alone.
EnvironmentFile=-/etc/pyrula/{place}.env
# The embedded store is %S/pyrula/pyrula.db, unless PYRULA_STORE_URL says otherwise.
Environment=XDG_STATE_HOME=%S
StateDirectory=pyrula
RuntimeDirectory={place}
RuntimeDirectoryMode=0750
RuntimeDirectoryPreserve=restart

# The end takes {end_s} s at most, in the course of which more time is asked for.
TimeoutStartSec={start_s}
TimeoutStopSec={stop_s}
WatchdogSec=30
KillMode=mixed
Restart=on-failure
RestartSec=1
SuccessExitStatus=143
RestartPreventExitStatus=78
OOMPolicy=continue
LimitNOFILE=65536

# What workers may do to this host. ProcSubset=pid would hide what the supervisor reads of its children.
DynamicUser=yes
# The same for all supervisors of this host, since they share the embedded store.
User=pyrula
UMask=0077
NoNewPrivileges=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectSystem=strict
{home}
{bound}ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectClock=yes
ProtectHostname=yes
ProtectControlGroups=yes
ProtectProc=invisible
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
CapabilityBoundingSet=
# Code that compiles while it runs (numba, torch, some regular expression engines) dies of this one: try it first.
#MemoryDenyWriteExecute=yes

[Install]
WantedBy=multi-user.target
"""
