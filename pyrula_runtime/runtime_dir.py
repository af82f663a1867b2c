"""Where a process keeps what lives no longer than this boot, and which boot this is.

Black boxes and sockets belong in memory, not on a disk: a disk that is slow to write back can hold up whoever touches
a page of a box, and a reboot should leave nothing. So systemd's directory comes first, the user's second, and only
where neither exists a folder under the state home, which may be on a disk. All processes of one user on one host must
agree on the directory, or they cannot bury each other; the three rules depend on the environment alone for that.
"""

from __future__ import annotations

import functools
import hashlib
import os
import stat
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

from pyrula_runtime.core.errors import ConfigurationError

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_SYSCTL_PATH = "/usr/sbin:/sbin:/usr/bin:/bin"
_USABLE = os.R_OK | os.W_OK | os.X_OK


def runtime_dir(environ: Mapping[str, str]) -> Path:
    """The directory for boxes and sockets, made (0700) if need be; ConfigurationError if it must not be used."""
    if named := environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]:  # systemd separates several by colons
        return _usable(Path(named), "RUNTIME_DIRECTORY")
    if named := environ.get("XDG_RUNTIME_DIR", ""):
        # Kept through `su` and `sudo -E` it is somebody else's, even while nothing of ours is in it yet.
        _refuse(_foreign(Path(named), "XDG_RUNTIME_DIR"))
        return _usable(Path(named, "pyrula"), "XDG_RUNTIME_DIR")
    if named := environ.get("XDG_STATE_HOME", ""):
        return _usable(Path(named, "pyrula", "run"), "XDG_STATE_HOME")
    home = environ.get("HOME") or Path.home()
    return _usable(Path(home, ".local", "state", "pyrula", "run"), "HOME")


def _usable(path: Path, variable: str) -> Path:
    _refuse(_relative(path, variable))
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            [f"runtime directory {path} cannot be made ({error.strerror}); {_remedy(variable)}"]
        ) from error
    _refuse(_foreign(path, variable))
    _refuse(_closed(path, variable))
    return path


def _relative(path: Path, variable: str) -> Iterator[str]:
    if not path.is_absolute():
        yield f"{variable} leads to '{path}', but must be an absolute path"


def _foreign(path: Path, variable: str) -> Iterator[str]:
    """Somebody else's directory: its owner could replace a box or a socket, and we could lock the owner out of it."""
    try:
        found = path.stat()
    except OSError:
        return  # not there or not to be seen: making it will say so
    if found.st_uid != os.geteuid():
        yield f"runtime directory {path} belongs to uid {found.st_uid}, not to {os.geteuid()}; {_remedy(variable)}"


def _closed(path: Path, variable: str) -> Iterator[str]:
    if stat.S_IMODE(path.stat().st_mode) & stat.S_IWOTH:
        yield f"runtime directory {path} may be written by every user of this host; run chmod o-w on it"
    if not os.access(path, _USABLE, effective_ids=os.access in os.supports_effective_ids):
        yield f"runtime directory {path} cannot be written; {_remedy(variable)}"


def _remedy(variable: str) -> str:
    return f"set {variable} to a directory that this user owns and can write"


def _refuse(faults: Iterator[str]) -> None:
    if found := tuple(faults):
        raise ConfigurationError(found)


@functools.cache
def boot_id() -> str:
    """A UUID that is the same in all processes of this boot and never again after it.

    Linux says it. Elsewhere it is made from what sysctl says: macOS names its boot sessions; the BSDs tell the moment
    of the boot, which moves when somebody sets the clock, and then looks like a reboot to whoever asks afterwards.
    """
    try:
        return str(uuid.UUID(_BOOT_ID.read_text().strip()))
    except FileNotFoundError:
        return _boot_id_from_sysctl()


def _boot_id_from_sysctl() -> str:
    environ = {"PATH": _SYSCTL_PATH, "LC_ALL": "C", "TZ": "UTC"}  # the answer may hold a date, which must not vary
    for name in ("kern.bootsessionuuid", "kern.boottime"):
        try:
            told = subprocess.run(["sysctl", "-n", name], env=environ, capture_output=True, check=True).stdout
        except (FileNotFoundError, subprocess.CalledProcessError):
            continue  # not this system's name for it
        return str(uuid.UUID(bytes=hashlib.blake2b(told, digest_size=16).digest()))
    raise ConfigurationError(
        [f"this system does not say which boot it is ({_BOOT_ID} is hidden); under systemd, remove ProcSubset=pid"]
    )
