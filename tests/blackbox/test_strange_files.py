"""Files that are no box of ours: none raises, none is taken for a dead worker, none is touched."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from pyrula_runtime.blackbox import find_dead, layout, read_box
from pyrula_runtime.runtime_dir import boot_id
from tests.blackbox.holder import STORE, Holder


@pytest.fixture
def dead(directory: Path, holder: Holder) -> Path:
    """The box of a dead process."""
    path = holder.create("w-1")
    holder.kill()
    return path


def found_in(directory: Path) -> list[str]:
    return [view.incarnation for view in find_dead(directory, boot_id=boot_id(), store_identity=STORE)]


def rewritten(image: bytes, magic: bytes, version: int) -> bytes:
    return layout.PREFIX.pack(magic, version) + image[layout.PREFIX.size :]


@pytest.mark.parametrize(
    "change",
    [
        lambda image: b"",
        lambda image: image[: layout.HEAD_AT + 20],
        lambda image: bytes(len(image)),
        lambda image: b"\xff" * len(image),
        lambda image: b"not a box\n",
        lambda image: rewritten(image, b"OTHERBOX", layout.VERSION),
        lambda image: rewritten(image, layout.MAGIC, layout.VERSION + 1),
        lambda image: rewritten(image, layout.MAGIC, layout.VERSION + 1) + bytes(5000),
        lambda image: rewritten(image, layout.MAGIC, layout.VERSION + 1)[: layout.HEAD_AT],
        lambda image: image[: layout.HEAD_AT + 9] + b"?" + image[layout.HEAD_AT + 10 :],
    ],
    ids=[
        "empty",
        "half written",
        "zeros",
        "ones",
        "text",
        "other magic",
        "newer",
        "newer and longer",
        "newer and shorter",
        "torn head",
    ],
)
def test_what_is_no_box_of_this_layout_is_left_alone(
    directory: Path, dead: Path, change: Callable[[bytes], bytes]
) -> None:
    content = change(dead.read_bytes())
    dead.write_bytes(content)
    assert read_box(dead) is None
    assert found_in(directory) == []
    assert dead.read_bytes() == content


def test_what_is_no_plain_file_is_left_alone(directory: Path, dead: Path) -> None:
    folder = dead.parent
    (folder / "folder.box").mkdir()
    (folder / "folder.new").mkdir()
    os.mkfifo(folder / "pipe.box")
    os.mkfifo(folder / "pipe.new")
    (folder / "dangling.box").symlink_to(folder / "nothing")
    (folder / "named.box").symlink_to(dead)
    (folder / "named.new").symlink_to(dead)
    with socket.socket(socket.AF_UNIX) as listener:
        # Relative: the path of a socket must be short.
        fd = os.open(folder, os.O_RDONLY)
        listener.bind(f"/proc/self/fd/{fd}/socket.box")
        os.close(fd)
        before = sorted(path.name for path in folder.iterdir() if path.name != "pipe.new")
        assert found_in(directory) == ["w-1"]
        assert found_in(directory) == ["w-1"]
        assert sorted(path.name for path in folder.iterdir() if path.name != "pipe.new") == before
        for path in folder.iterdir():
            assert (read_box(path) is None) == (path != dead)


def test_a_link_to_a_dead_box_is_buried_like_it(directory: Path, dead: Path) -> None:
    os.link(dead, dead.with_name("linked.box"))
    assert found_in(directory) == ["w-1", "w-1"]


def test_no_directory_no_dead(tmp_path: Path) -> None:
    assert found_in(tmp_path / "never made") == []
    assert read_box(tmp_path / "never made" / "x.box") is None


def test_what_may_not_be_read_is_not_judged(
    open_folder: Path, dead: Path, unprivileged: Callable[[], AbstractContextManager[None]]
) -> None:
    folder = open_folder / "boxes"
    folder.mkdir(mode=0o755)
    for name in ("closed.box", "closed.new"):
        shutil.copy(dead, folder / name)
        (folder / name).chmod(0)
    with unprivileged():
        assert read_box(folder / "closed.box") is None
        assert found_in(open_folder) == []
    assert sorted(path.name for path in folder.iterdir()) == ["closed.box", "closed.new"]
