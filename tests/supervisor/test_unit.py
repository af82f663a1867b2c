"""The systemd unit: what it says, that systemd understands all of it, and that its command is what was meant."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pyrula_supervisor.unit import Daemon, unit
from tests.supervisor.sites import SupervisedSite

ODD = ["--worker-id", 'a b%h $x "q" \\n', "--warmup", "app:warm"]


def service(**changes: object) -> Daemon:
    given: dict[str, object] = {
        "name": "default",
        "python": "/opt/venv/bin/python",
        "directory": Path("/srv/app"),
        "args": ["--procs", "4", "--workflow", "app"],
        "startup_s": 60.0,
        "drain_s": 45.0,
    }
    return Daemon(**given | changes)  # type: ignore[arg-type]  # a test's own changes


def settings(text: str) -> dict[str, list[str]]:
    """The settings by name; those in comments do not count."""
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


def complaints(text: str, folder: Path) -> str:
    """What systemd says of a unit; it exits with 0 whatever it does not know, so any word counts."""
    folder.mkdir(exist_ok=True)
    path = folder / "pyrula.service"
    path.write_text(text)
    checked = subprocess.run(["systemd-analyze", "verify", str(path)], capture_output=True, text=True, check=False)
    return checked.stderr if checked.returncode == 0 else f"{checked.returncode}: {checked.stderr}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Type", "notify"),
        ("NotifyAccess", "main"),
        ("KillMode", "mixed"),
        ("WatchdogSec", "30"),
        ("TimeoutStartSec", "360"),
        ("TimeoutStopSec", "60"),
        ("Restart", "on-failure"),
        ("SuccessExitStatus", "143"),
        ("RestartPreventExitStatus", "78"),
        ("RuntimeDirectory", "pyrula"),
        ("RuntimeDirectoryMode", "0750"),
        ("RuntimeDirectoryPreserve", "restart"),
        ("StateDirectory", "pyrula"),
        ("User", "pyrula"),
        ("OOMPolicy", "continue"),
        ("WorkingDirectory", "/srv/app"),
        ("ExecStart", "/opt/venv/bin/python -P -m pyrula_supervisor --procs 4 --workflow app"),
        ("ExecReload", "/opt/venv/bin/python -P -m pyrula_supervisor reload --wait"),
        ("ProtectHome", "yes"),
        ("CapabilityBoundingSet", ""),
    ],
)
def test_what_it_says(name: str, value: str) -> None:
    assert settings(unit(service()))[name] == [value]


def test_what_breaks_compilers_is_left_to_the_reader_with_its_reason() -> None:
    text = unit(service())
    assert "MemoryDenyWriteExecute" not in settings(text)
    before, _, _ = text.partition("#MemoryDenyWriteExecute=yes")
    assert "numba" in before.splitlines()[-1]


def test_another_name_has_places_of_its_own() -> None:
    found = settings(unit(service(name="mail", args=["--name", "mail", "--workflow", "app"])))
    assert found["RuntimeDirectory"] == ["pyrula-mail"]
    assert (found["StateDirectory"], found["User"]) == (["pyrula"], ["pyrula"])
    assert found["ExecReload"][0].endswith("reload --wait --name mail")


def test_the_end_may_last_as_long_as_a_drain() -> None:
    assert settings(unit(service(drain_s=300.0)))["TimeoutStopSec"] == ["315"]


def test_arguments_are_what_systemd_makes_of_them_again() -> None:
    (command,) = settings(unit(service(args=ODD)))["ExecStart"]
    assert command.endswith(r'--worker-id "a b%%h $$x \"q\" \\n" --warmup app:warm')


@pytest.mark.parametrize("changes", [{"directory": Path("/home/ada/app")}, {"code": ["/root/python"]}])
def test_code_in_a_home_directory_stays_readable(changes: dict[str, object]) -> None:
    assert settings(unit(service(**changes)))["ProtectHome"] == ["read-only"]


def test_code_in_a_temporary_directory_is_shown_to_the_service() -> None:
    text = unit(service(directory=Path("/tmp/app"), code=["/tmp/venv", "/usr", "/tmp/venv"]))
    assert settings(text)["BindReadOnlyPaths"] == ["/tmp/app /tmp/venv"]
    assert "BindReadOnlyPaths" not in unit(service())


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"name": "mail"},
        {"args": ODD},
        {"directory": Path("/tmp/a b%c")},
        {"directory": Path("/home/ada/app")},
    ],
)
def test_systemd_understands_every_word(tmp_path: Path, changes: dict[str, object]) -> None:
    """Where systemd is not installed there is nobody to ask, and the other tests have to do."""
    if shutil.which("systemd-analyze") is None:
        return
    text = unit(service(python=sys.executable, **changes))
    assert complaints(text, tmp_path) == ""
    assert complaints(text.replace("KillMode", "KilMode"), tmp_path) != ""


def test_it_is_hardened(tmp_path: Path) -> None:
    """Exposure as systemd counts it: 9.6 for a plain unit."""
    if shutil.which("systemd-analyze") is None:
        return
    path = tmp_path / "pyrula.service"
    path.write_text(unit(service()))
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=20", str(path)]
    judged = subprocess.run(command, capture_output=True, text=True, check=False)
    assert judged.returncode == 0, judged.stdout


def test_the_command_prints_it_with_the_flags_as_typed(tmp_path: Path) -> None:
    site = SupervisedSite(tmp_path)
    printed = site.ask("unit", "--procs=4", "--workflow", "app:order", "--name", "mail", "--shutdown-grace", "120")
    assert (printed.returncode, printed.stderr) == (0, "")
    found = settings(printed.stdout)
    command = f"{sys.executable} -P -m pyrula_supervisor"
    assert found["ExecStart"] == [f"{command} --procs=4 --workflow app:order --name mail --shutdown-grace 120"]
    assert found["ExecReload"] == [f"{command} reload --wait --name mail"]
    assert found["WorkingDirectory"] == [str(tmp_path)]
    assert found["TimeoutStopSec"] == ["150"]


def test_a_name_from_elsewhere_is_kept_too(tmp_path: Path) -> None:
    site = SupervisedSite(tmp_path)
    site.environ["PYRULA_NAME"] = "mail"
    found = settings(site.ask("unit", "--workflow", "app").stdout)
    assert found["ExecStart"][0].endswith("--workflow app --name mail")
