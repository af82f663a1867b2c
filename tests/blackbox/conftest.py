"""What every test of the black box starts from: a runtime directory, and processes that hold boxes in it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from pyrula_runtime.blackbox import BlackBox
from tests.blackbox.holder import STORE, Holder

NOBODY_UID = 65534


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def start(directory: Path) -> Iterator[Callable[[], Holder]]:
    with ExitStack() as ends:

        def one() -> Holder:
            holder = Holder(directory)
            ends.callback(holder.end)
            return holder

        yield one


@pytest.fixture
def holder(start: Callable[[], Holder]) -> Holder:
    return start()


@pytest.fixture
def box(directory: Path) -> Iterator[BlackBox]:
    """A box held by the test's own process."""
    own = BlackBox.create(directory, incarnation="own", worker_id="w", store_identity=STORE, now_ms=1_700_000_000_000)
    yield own
    own.close()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can reach, unlike the temporary directories of tests."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def unprivileged() -> Callable[[], object]:
    """A context in which the permissions of files count, also when the tests run as root."""

    @contextmanager
    def lowered() -> Iterator[None]:
        before = os.geteuid()
        if before == 0:
            os.seteuid(NOBODY_UID)
        try:
            yield
        finally:
            os.seteuid(before)

    return lowered
