"""The name of a supervisor on its host: who has it, and where it is spoken to.

A record lock on `<name>.lock` says whether the name is taken, since it dies with its holder, whatever way that goes;
that the socket is there says nothing. The file is opened once in the supervisor and stays: closing any descriptor of it
would free the lock, and a file that were removed could be locked by two.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from pyrula_runtime.core.errors import ConfigurationError
from pyrula_runtime.runtime_dir import runtime_dir

DEFAULT_NAME = "default"
# where systemd puts the runtime directories of services
_SERVICES = Path("/run")
# what fits into the address of a Unix socket everywhere
_MAX_ADDRESS = 100


def service_of(name: str) -> str:
    """How the systemd unit of this supervisor is called, and its runtime directory."""
    return "pyrula" if name == DEFAULT_NAME else f"pyrula-{name}"


def directory_of(environ: Mapping[str, str], name: str, services: Path = _SERVICES) -> Path:
    """Where to ask a supervisor: our own runtime directory, or its unit's, where root finds it and else its own user.

    A service's user changes with each start, and its directory belongs to it; so root, whom the supervisor obeys, must
    not need that directory as its own.
    """
    own, other = runtime_dir(environ), services / service_of(name)
    may_look = os.access(other / f"{name}.lock", os.R_OK | os.W_OK)
    return other if may_look and not is_taken(own, name) and is_taken(other, name) else own


def socket_path(directory: Path, name: str) -> Path:
    """Where the supervisor of this name is spoken to."""
    return directory / f"{name}.sock"


def take_name(directory: Path, name: str) -> int:
    """Take the name for as long as this process lives: the lock's descriptor. ConfigurationError names who has it."""
    path = directory / f"{name}.lock"
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise ConfigurationError([f"{path} cannot be opened: {error.strerror}"]) from error
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        pid = os.pread(fd, 32, 0).decode(errors="replace").strip()
        os.close(fd)
        if isinstance(error, BlockingIOError | PermissionError):
            who = f"process {pid}" if pid else "another process"
            fault = f"a supervisor named {name!r} runs already: {who}; stop that one or give this one another --name"
        else:
            fault = f"{path} cannot be locked: {error.strerror}; the runtime directory must be on a local file system"
        raise ConfigurationError([fault]) from error
    os.truncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd


def is_taken(directory: Path, name: str) -> bool:
    """Whether a supervisor has the name; never to be asked by that supervisor itself."""
    try:
        fd = os.open(directory / f"{name}.lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def names_taken(directory: Path) -> list[str]:
    """The names that supervisors have in this directory, as far as this user may look; for people, as `is_taken` is."""
    locks = [lock for lock in directory.glob("*.lock") if os.access(lock, os.R_OK | os.W_OK)]
    return sorted(lock.stem for lock in locks if is_taken(directory, lock.stem))


@contextlib.contextmanager
def address_of(path: Path) -> Iterator[str]:
    """What to bind or connect to for this path; long ones are reached through a descriptor of their directory."""
    if len(os.fsencode(path)) <= _MAX_ADDRESS:
        yield str(path)
        return
    if not Path("/proc/self/fd").exists():
        raise ConfigurationError(
            [f"{path} is longer than a socket's address may be ({_MAX_ADDRESS} bytes); set XDG_RUNTIME_DIR"]
        )
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
