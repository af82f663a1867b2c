"""Where a supervisor is asked: at home, or where systemd runs one; and it is who has the name that decides."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyrula_runtime.core.errors import NoSupervisor
from pyrula_supervisor.asking import Door
from pyrula_supervisor.naming import directory_of, service_of
from pyrula_supervisor.requests import Request

HOLD = """
import sys
from pathlib import Path
from pyrula_supervisor.naming import take_name
take_name(Path(sys.argv[1]), sys.argv[2])
print("taken", flush=True)
sys.stdin.read()
"""


@contextmanager
def held(directory: Path, name: str) -> Iterator[None]:
    """Another process has the name there."""
    directory.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(directory), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "taken\n"
        yield


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "own").mkdir(mode=0o700)
    return {"XDG_RUNTIME_DIR": str(tmp_path / "own")}


@pytest.mark.parametrize("name", ["default", "mail"])
def test_the_one_of_a_unit_is_found_unless_there_is_one_of_our_own(
    tmp_path: Path, environ: dict[str, str], name: str
) -> None:
    own, services = tmp_path / "own" / "pyrula", tmp_path / "run"
    unit = services / service_of(name)
    assert directory_of(environ, name, services) == own
    with held(unit, name):
        assert directory_of(environ, name, services) == unit
        with held(own, name):
            assert directory_of(environ, name, services) == own
    assert directory_of(environ, name, services) == own


def test_units_are_called_after_the_name() -> None:
    assert (service_of("default"), service_of("mail")) == ("pyrula", "pyrula-mail")


def test_whoever_asks_for_a_wrong_name_hears_which_supervisors_run(tmp_path: Path) -> None:
    (tmp_path / "gone.lock").touch()
    door = Door(directory=tmp_path, name="defualt")
    others = r"--name chooses another one \(here run: default, mail\), and for"
    with held(tmp_path, "default"), held(tmp_path, "mail"), pytest.raises(NoSupervisor, match=others):
        door.ask(Request(command="status"))
    with pytest.raises(NoSupervisor, match="--name chooses another one, and for"):
        door.ask(Request(command="status"))
