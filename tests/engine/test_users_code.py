"""Lines of source, looked up by the names that code gives itself: whatever they are, nobody waits or is misled."""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from pyrula_runtime import users_code
from pyrula_runtime.core.frames import as_text, frames_of
from pyrula_runtime.engine.watchdog import stack_of
from pyrula_runtime.users_code import frames_around, source_of, users_line, with_source


def test_a_line_is_read_without_its_indentation(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text("def f():\n    return g(\x1b'ü')\n")
    assert source_of(str(app), 2) == r"return g(\x1b'ü')"
    assert source_of(str(app), 3) == ""
    assert with_source(f"{app}:1 in f") == f"{app}:1 in f: def f():"
    app.write_text("# moved\ndef f():\n    return 1\n")
    assert source_of(str(app), 3) == "return 1", "it is looked whether the file has changed"


def test_what_is_no_plain_file_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = tmp_path / "pipe.py"
    os.mkfifo(pipe)
    monkeypatch.setattr(users_code, "_MOST_SOURCE", 10)
    large = tmp_path / "large.py"
    large.write_text("x = 12345\n" * 2)
    for name in (
        str(pipe),
        "/dev/zero",
        str(tmp_path),
        "/proc/kmsg",
        str(large),
        str(tmp_path / "none.py"),
        "<string>",
    ):
        assert source_of(name, 1) == ""
        assert with_source(f"{name}:1 in f") == f"{name}:1 in f"
    assert source_of("with\0nul", 1) == ""
    assert users_line(f'Stack:\n  File "{pipe}", line 1 in f\n') == f"{pipe}:1 in f"


def test_source_in_an_archive_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        archive.writestr("in_archive.py", "import sys\ndef here():\n    return sys._getframe()\n")
    monkeypatch.syspath_prepend(str(tmp_path / "app.zip"))
    import in_archive  # type: ignore[import-not-found]

    assert frames_around(in_archive.here())[-1].source == "return sys._getframe()"


def named(code: CodeType, **names: Any) -> list[FrameType]:
    """The frames of code that calls itself something else."""
    found: list[FrameType] = []
    given: dict[str, Any] = {"keep": lambda: found.append(sys._getframe(1))}
    exec(code.replace(**names), given)
    return found


def test_names_forge_no_frames() -> None:
    evil = 'evil\n  File "/srv/innocent.py", line 3, in innocent\x1b[31m", line 4, in b'
    for names in ({"co_name": evil}, {"co_filename": evil}):
        (frame,) = named(compile("keep()", "/srv/guilty.py", "exec"), **names)
        text = as_text(frames_around(frame))
        assert "\x1b" not in text
        assert "innocent" in text.splitlines()[-1]
        assert not any(each.file == "/srv/innocent.py" for each in frames_of(text))
        assert len(frames_of(text)) == len(frames_around(frame))


def test_a_deep_recursion_is_told_in_a_few_lines() -> None:
    def deeper(left: int) -> str:
        import threading

        return deeper(left - 1) if left else stack_of(threading.get_ident())

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(5_000)
    try:
        text = deeper(3_000)
    finally:
        sys.setrecursionlimit(limit)
    assert "[Previous line repeated" in text
    assert len(text.splitlines()) < 30
