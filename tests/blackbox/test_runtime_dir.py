"""The runtime directory: which one, for whose use, and what is refused; and the name of this boot."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from pyrula_runtime import runtime_dir as module
from pyrula_runtime.core.errors import ConfigurationError
from pyrula_runtime.runtime_dir import boot_id, runtime_dir


def places(folder: Path) -> dict[str, str]:
    """Every variable that may lead to a runtime directory, in order of preference."""
    return {
        "RUNTIME_DIRECTORY": f"{folder}/systemd:{folder}/second",
        "XDG_RUNTIME_DIR": f"{folder}/user",
        "XDG_STATE_HOME": f"{folder}/state",
        "HOME": f"{folder}/home",
    }


@pytest.mark.parametrize(
    ("unset", "expected"),
    [
        ([], "systemd"),
        (["RUNTIME_DIRECTORY"], "user/pyrula"),
        (["RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR"], "state/pyrula/run"),
        (["RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"], "home/.local/state/pyrula/run"),
    ],
)
@pytest.mark.parametrize("unset_as", [None, ""], ids=["missing", "empty"])
def test_the_first_that_is_set_is_taken(tmp_path: Path, unset: list[str], expected: str, unset_as: str | None) -> None:
    environ = {name: value for name, value in places(tmp_path).items() if name not in unset}
    if unset_as is not None:
        environ |= dict.fromkeys(unset, unset_as)
    found = runtime_dir(environ)
    assert found == tmp_path / expected
    assert found.stat().st_mode & 0o777 == 0o700
    assert runtime_dir(environ) == found


def test_without_any_variable_it_is_in_the_users_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert runtime_dir({}) == tmp_path / ".local/state/pyrula/run"


def test_what_systemd_made_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    assert runtime_dir({"RUNTIME_DIRECTORY": str(tmp_path)}).stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize("variable", ["RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "HOME"])
def test_a_relative_path_is_refused(variable: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{variable} leads to 'here.*absolute"):
        runtime_dir({variable: "here"})


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"cannot be made .*; set RUNTIME_DIRECTORY to a directory"):
        runtime_dir({"RUNTIME_DIRECTORY": str(tmp_path / "file")})


@pytest.mark.parametrize("variable", ["RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR"])
def test_somebody_elses_directory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(ConfigurationError, match=r"belongs to uid \d+, not to \d+; set"):
        runtime_dir({variable: str(tmp_path)})
    assert list(tmp_path.iterdir()) == []


def test_a_directory_open_to_everybody_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    with pytest.raises(ConfigurationError, match="every user of this host"):
        runtime_dir({"RUNTIME_DIRECTORY": str(tmp_path)})


def test_a_directory_that_cannot_be_written_is_refused(
    open_folder: Path, unprivileged: Callable[[], AbstractContextManager[None]]
) -> None:
    folder = open_folder / "run"
    folder.mkdir(mode=0o500)
    with unprivileged():
        user = os.geteuid()
    os.chown(folder, user, -1)
    with unprivileged(), pytest.raises(ConfigurationError, match="cannot be written; set RUNTIME_DIRECTORY"):
        runtime_dir({"RUNTIME_DIRECTORY": str(folder)})


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A system without Linux's boot id; `sysctl` may be put into the folder."""
    monkeypatch.setattr(module, "_BOOT_ID", tmp_path / "nothing")
    monkeypatch.setattr(module, "_SYSCTL_PATH", f"{tmp_path}:/usr/bin:/bin")
    boot_id.cache_clear()
    yield tmp_path
    boot_id.cache_clear()


def sysctl(folder: Path, answers: str) -> None:
    (folder / "sysctl").write_text(f'#!/bin/sh\ncase "$2" in {answers} *) echo unknown >&2; exit 1;; esac\n')
    (folder / "sysctl").chmod(0o755)


def boot_id_anew() -> str:
    boot_id.cache_clear()
    return str(uuid.UUID(boot_id()))


def test_linux_names_its_boot() -> None:
    assert boot_id() == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@pytest.mark.parametrize("name", ["kern.bootsessionuuid", "kern.boottime"])
def test_elsewhere_the_boot_is_named_by_what_sysctl_says(elsewhere: Path, name: str) -> None:
    sysctl(elsewhere, f"{name}) echo this boot;;")
    first = boot_id_anew()
    assert boot_id_anew() == first
    sysctl(elsewhere, f"{name}) echo the next boot;;")
    assert boot_id_anew() != first


def test_a_session_goes_before_a_moment(elsewhere: Path) -> None:
    sysctl(elsewhere, "kern.bootsessionuuid) echo session;; kern.boottime) date +%N;;")
    assert boot_id_anew() == boot_id_anew()


def test_a_hidden_boot_is_refused_with_the_remedy(elsewhere: Path) -> None:
    sysctl(elsewhere, "")
    with pytest.raises(ConfigurationError, match="remove ProcSubset=pid"):
        boot_id_anew()
