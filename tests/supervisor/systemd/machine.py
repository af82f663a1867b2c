"""A machine that systemd has booted: for real, as PID 1 of namespaces, where root and this host allow that.

It sees this host's files, copy on write, so the program under test is the one that is tested everywhere else. It ends
with its `unshare`, which ends with the test, whatever way that goes; its cgroups are a subtree of the test's own.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from tests.cli.sites import PATIENCE_S
from tests.supervisor.ears import Ear
from tests.supervisor.household import children_of, gone
from tests.supervisor.lines import ROOT

T = TypeVar("T")
SITE = Path("/srv/site")
PROGRAMS = ("unshare", "nsenter", "setpriv", "pivot_root", "systemctl", "journalctl")
NAMESPACES = ("--pid", "--mount", "--uts", "--ipc", "--cgroup", "--propagation", "private")
ENVIRON = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
BOOT_S = 30.0
# moves itself into a cgroup, and goes on as the command
JOIN = 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"'


class Unbootable(Exception):
    """Why no systemd can be booted here."""


class Machine:
    """One booted systemd. `folder/site` is its /srv/site."""

    def __init__(self, folder: Path) -> None:
        self.site = folder / "site"
        self.site.mkdir(mode=0o755)
        self._scratch = folder / "scratch"
        self._scratch.mkdir()
        self._output = folder / "boot.log"
        self.cgroup = _new_cgroup()
        try:
            self._boot()
        except BaseException:
            self.close()
            raise

    def _boot(self) -> None:
        ear = Ear(f"@pyrula-test-{uuid.uuid4().hex}")
        unshared = ["setpriv", "--pdeathsig", "KILL", "unshare", "--fork", "--kill-child", *NAMESPACES]
        readable = [str(ROOT), sys.prefix, sys.base_prefix, sys.executable]
        boot = ["sh", str(Path(__file__).with_name("boot.sh")), str(self._scratch), str(self.site), _systemd()]
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                ["sh", "-c", JOIN, "sh", str(self.cgroup), *unshared, *boot, ear.address, *readable],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=ENVIRON,
            )
        try:
            self.pid = self._await_boot(ear)
        finally:
            ear.close()

    def _await_boot(self, ear: Ear) -> int:
        deadline_s = time.monotonic() + BOOT_S
        while self._process.poll() is None and time.monotonic() < deadline_s:
            with contextlib.suppress(TimeoutError):
                heard = ear.next(0.2)
                if heard.fields.get("READY") == "1":
                    return heard.pid
        said = self._output.read_text(errors="replace").strip().splitlines()[-1:]
        raise Unbootable(f"systemd did not boot in namespaces here: {said[0] if said else 'it said nothing'}")

    @property
    def version(self) -> str:
        """Which systemd it is."""
        return self.answer("systemctl", "--version").splitlines()[0]

    def path(self, inside: str) -> Path:
        """A file of the machine, as seen from here."""
        return Path(f"/proc/{self.pid}/root{inside}")

    def run(self, *command: str, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command in the machine, as root, to its end."""
        return subprocess.run(
            ["nsenter", "-t", str(self.pid), "-m", "-p", "-u", "-i", "-C", "-r", "-w", *command],
            env=ENVIRON | dict(environ or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def answer(self, *command: str, environ: Mapping[str, str] | None = None) -> str:
        """What a command that must succeed prints."""
        done = self.run(*command, environ=environ)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def close(self) -> None:
        """Turn it off; nothing of it is left."""
        if hasattr(self, "_process"):
            inits = children_of(self._process.pid)
            self._process.kill()
            self._process.wait(PATIENCE_S)
            for pid in inits:
                gone(pid)
        for folder, _, _ in os.walk(self.cgroup, topdown=False):
            os.rmdir(folder)


class Unit:
    """A unit of the machine that runs a supervisor on an app of its own."""

    def __init__(self, machine: Machine, name: str, app: str) -> None:
        self.machine = machine
        self.name = name
        self.service = f"pyrula-{name}.service"
        self.folder = machine.site / name
        self.folder.mkdir(mode=0o755)
        self.write(app)

    def write(self, app: str) -> None:
        """Put new code where the app is."""
        (self.folder / "app.py").write_text(app)

    def install(self, *args: str, **changes: str) -> None:
        """Have the unit as `pyrula-supervisor unit` prints it, but for some settings."""
        python = (sys.executable, "-P", "-m", "pyrula_supervisor")
        text = self.machine.answer(
            *("env", "-C", str(SITE / self.name)),
            *(*python, "unit", "--name", self.name, "--workflow", "app", "--health-port", "0", *args),
        )
        (self.machine.path("/etc/systemd/system") / self.service).write_text(text)
        self._drop_in(self.service, "[Service]", *(f"{name}={value}" for name, value in changes.items()))
        # systemd forgets how a unit has ended as soon as no other one speaks of it
        self._drop_in("test.target", "[Unit]", f"After={self.service}")
        self.machine.answer("systemctl", "daemon-reload")

    def _drop_in(self, unit: str, *lines: str) -> None:
        folder = self.machine.path(f"/etc/systemd/system/{unit}.d")
        folder.mkdir(exist_ok=True)
        (folder / f"{self.name}.conf").write_text("\n".join(lines) + "\n")

    def ask(self, *command: str) -> subprocess.CompletedProcess[str]:
        """`systemctl COMMAND... unit`."""
        return self.machine.run("systemctl", *command, self.service)

    def show(self, name: str) -> str:
        """One property."""
        return self.machine.answer("systemctl", "show", "--value", "--property", name, self.service).strip()

    def shows(self, **properties: str) -> None:
        """Wait until the properties are these."""
        until(lambda: all(self.show(name) == value for name, value in properties.items()), self.journal)

    def journal(self) -> str:
        """What it has said, and what systemd has said of it."""
        return self.machine.answer("journalctl", "-o", "cat", "--no-pager", "-u", self.service)

    def said(self, pattern: str) -> re.Match[str]:
        """Wait for words."""
        return until(lambda: re.search(pattern, self.journal()), self.journal)

    def processes(self) -> set[int]:
        """The pids of all its processes, as seen from here."""
        return {
            int(pid)
            for procs in (self.machine.cgroup / "system.slice" / self.service).rglob("cgroup.procs")
            for pid in procs.read_text().split()
        }


def until(holds: Callable[[], T | None], told: Callable[[], str]) -> T:
    """Ask until it holds; every question runs a program, so this is no busy loop."""
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        if found := holds():
            return found
    raise AssertionError(f"it never came:\n{told()}")


@contextlib.contextmanager
def machine(folder: Path) -> Iterator[Machine]:
    """A machine that is turned off in the end. Raises Unbootable."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        raise Unbootable("only root can boot a systemd, and only on Linux")
    if missing := [each for each in PROGRAMS if shutil.which(each, path=ENVIRON["PATH"]) is None]:
        raise Unbootable(f"no systemd can be booted without {', '.join(missing)}")
    made = Machine(folder)
    try:
        yield made
    finally:
        made.close()


def _systemd() -> str:
    for path in ("/lib/systemd/systemd", "/usr/lib/systemd/systemd"):
        if os.access(path, os.X_OK):
            return path
    raise Unbootable("systemd is not installed")


def _new_cgroup() -> Path:
    """A cgroup (v2) below the one of this process."""
    mounts = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    root = next((Path(mount[1]) for mount in mounts if mount[2] == "cgroup2"), None)
    own = re.search(r"^0::/(.*)$", Path("/proc/self/cgroup").read_text(), re.MULTILINE)
    if root is None or own is None:
        raise Unbootable("no cgroup2 is mounted, which systemd needs")
    made = root / own[1] / f"pyrula-test-{uuid.uuid4().hex[:8]}"
    try:
        made.mkdir()
    except OSError as error:
        raise Unbootable(f"no cgroup can be made for a systemd: {error}") from error
    return made
