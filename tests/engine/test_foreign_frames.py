"""Processes read from outside, on every CPython that is supported: at rest, busy, stopped, forked, with odd names."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrula_runtime import cpython_layout, foreign_frames, kernel, stacks
from pyrula_runtime.core.frames import frames_of
from pyrula_runtime.cpython_layout import Layout
from pyrula_runtime.foreign_frames import Whereabouts, frames_of_thread, own_whereabouts
from pyrula_runtime.stacks import stack_path
from tests.engine.dying import NAME, Dying

WAITS = "print(threading.get_native_id(), flush=True)\nctypes.PyDLL(None).read(0, ctypes.create_string_buffer(9), 9)"


class Readable:
    """Processes that tell where they are, and what can be read of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ends = ExitStack()

    def start(self, code: str) -> tuple[Dying, int]:
        """A process, and the thread that it names first."""
        process = Dying(self._folder, code)
        self._ends.callback(process.end)
        thread_id = int(process.said())
        assert stack_path(process.folder, NAME).read_text().startswith("readable"), "it could not read itself"
        return process, thread_id

    @staticmethod
    def stack(process: Dying, thread_id: int, pid: int = 0) -> str:
        return stacks.read(stack_path(process.folder, NAME), pid or process.process.pid, thread_id)

    def resting(
        self, process: Dying, thread_id: int, pid: int = 0, at: tuple[str, int] | None = None
    ) -> list[tuple[str, int, str]]:
        """Where it is as soon as it waits for its input: file, line, function, the innermost last.

        `at` is where that must be; None: in a line of its program.
        """
        at = at or (str(process.program), line_of(process, "ctypes.PyDLL"))
        while True:
            frames = frames_of(self.stack(process, thread_id, pid))
            if frames and (frames[-1].file, frames[-1].line) == at:
                return [(frame.file, frame.line, frame.function) for frame in frames]
            assert process.process.poll() is None
            os.sched_yield()

    def close(self) -> None:
        self._ends.close()


@pytest.fixture
def readable(tmp_path: Path) -> Iterator[Readable]:
    made = Readable(tmp_path)
    yield made
    made.close()


def line_of(process: Dying, text: str) -> int:
    """Which line of its program holds this."""
    return next(number for number, line in enumerate(process.lines, 1) if text in line)


def test_who_holds_the_gil_is_read_with_the_line(readable: Readable) -> None:
    process, thread = readable.start(WAITS)
    program = str(process.program)
    assert readable.resting(process, thread) == [
        (program, line_of(process, "guilty()  # called"), "<module>"),
        (program, line_of(process, "ctypes.PyDLL"), "guilty"),
    ]
    process.process.communicate("on\n")
    assert process.process.returncode == 0


def test_who_is_stopped_is_read_and_stays_stopped(readable: Readable) -> None:
    process, thread = readable.start(WAITS)
    there = readable.resting(process, thread)
    process.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.process.pid, os.WSTOPPED | os.WNOWAIT)
    text = readable.stack(process, thread)
    assert [(frame.file, frame.line, frame.function) for frame in frames_of(text)] == there
    assert kernel.stat_fields(process.process.pid)[0] == b"T"


@pytest.mark.parametrize(
    ("code", "functions"),
    [
        pytest.param("def größe_値():\n{}\ngröße_値()", ["größe_値"], id="two bytes a character"),
        pytest.param("def größe_𐍈():\n{}\ngröße_𐍈()", ["größe_𐍈"], id="four bytes a character"),
        pytest.param("def été():\n{}\nété()", ["été"], id="latin"),
        pytest.param("def each():\n{}\n    yield\nlist(each())", ["each"], id="a generator"),
        pytest.param(
            "import asyncio\nasync def inner():\n{}\nasync def outer():\n    await inner()\nasyncio.run(outer())",
            ["outer", "inner"],
            id="coroutines",
        ),
        pytest.param("def key(_):\n{}\nsorted([1], key=key)", ["key"], id="called back from C"),
        pytest.param("[exec(compile({!r}, 'given', 'exec')) for _ in [0]]", ["<module>"], id="code that is executed"),
        pytest.param(
            "class Made:\n    def __init__(self, last):\n        if not last:\n            return\n{}\n"
            "for last in [*[False] * 99, True]:\n    Made(last)",
            ["guilty", "__init__"],
            id="a constructor that Python calls in a short way",
        ),
        pytest.param(
            "class Odd:\n    def __del__(self):\n{}\nodd = Odd()\ndel odd", ["__del__"], id="at the end of an object"
        ),
    ],
)
def test_whatever_python_calls_is_read(readable: Readable, code: str, functions: list[str]) -> None:
    if "{!r}" in code:
        code = code.format(WAITS)
    else:
        depth = "        " if "class" in code else "    "
        code = code.format("\n".join(depth + line for line in WAITS.splitlines()))
    process, thread = readable.start(code)
    found = readable.resting(process, thread, at=("given", 2) if "'given'" in code else None)
    assert [function for *_, function in found][-len(functions) :] == functions
    assert found[1][2] == "guilty"


def test_any_thread_is_read_also_one_of_a_fork(readable: Readable) -> None:
    process, thread = readable.start(
        f"""
        if os.fork():
            os.wait()
            os._exit(0)
        file = stacks.offer(directory, {NAME!r})
        def work():
            print(threading.get_native_id(), os.getpid(), flush=True)
            ctypes.PyDLL(None).read(0, ctypes.create_string_buffer(9), 9)
        print(0, flush=True)
        others = [threading.Thread(target=threading.Event().wait, daemon=True) for _ in range(20)]
        [other.start() for other in others]
        threading.Thread(target=work).start()
        threading.Event().wait()
        """
    )
    assert thread == 0
    thread, pid = map(int, process.said().split())
    try:
        found = readable.resting(process, thread, pid)
        assert [function for *_, function in found] == ["_bootstrap", "_bootstrap_inner", "run", "work"]
        assert found[-1][1] == line_of(process, "ctypes.PyDLL")
        main = frames_of(readable.stack(process, pid, pid))
        assert [frame.function for frame in main][:2] == ["<module>", "guilty"]
    finally:
        os.kill(pid, signal.SIGKILL)


def test_of_a_deep_recursion_the_innermost_are_read(readable: Readable) -> None:
    inner = "\n".join("        " + line for line in WAITS.splitlines())
    process, thread = readable.start(
        f"def deeper(n):\n    if n:\n        deeper(n - 1)\n    else:\n{inner}\ndeeper(500)"
    )
    found = readable.resting(process, thread)
    assert len(found) == 100
    assert {function for *_, function in found} == {"deeper"}
    assert [line for _, line, _ in found[-2:]] == [line_of(process, "deeper(n - 1)"), line_of(process, "ctypes.PyDLL")]


def test_what_one_function_tells_is_read_once_a_look(readable: Readable, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = "\n".join("        " + line for line in WAITS.splitlines())
    process, thread = readable.start(
        f"def deeper(n):\n    if n:\n        deeper(n - 1)\n    else:\n{inner}\ndeeper(500)"
    )
    readable.resting(process, thread)
    decoded: list[int] = []
    line = foreign_frames._line

    def counted(lines: bytes, first: int, at: int) -> int:
        decoded.append(at)
        return line(lines, first, at)

    monkeypatch.setattr(foreign_frames, "_line", counted)
    assert len(frames_of(readable.stack(process, thread))) == 100
    assert len(decoded) == 2 * 2  # two places, and two looks that are the same


def test_a_function_of_many_lines_is_read_with_the_line(readable: Readable) -> None:
    long = "\n".join(["    pass"] * 50_000 + ["    n = 1"] * 50_000)
    inner = "\n".join("    " + line for line in WAITS.splitlines())
    process, thread = readable.start(f"def long():\n{long}\n{inner}\nlong()")
    assert readable.resting(process, thread)[-1][1:] == (line_of(process, "ctypes.PyDLL"), "long")


@pytest.mark.parametrize(
    ("file", "function", "shown"),
    [
        pytest.param(
            "/srv/a.py",
            'evil\n  File "/srv/innocent.py", line 3 in innocent\nrun 01 forged',
            ("/srv/a.py", r"evil\n  File \x22/srv/innocent.py\x22, line 3 in innocent\nrun 01 forged"),
            id="frames of others",
        ),
        pytest.param(
            '/srv/a.py", line 7 in good\n  File "/srv/innocent.py',
            "evil",
            (r"/srv/a.py\x22, line 7 in good\n  File \x22/srv/innocent.py", "evil"),
            id="frames of others in the file's name",
        ),
        pytest.param(
            "/srv/\x1b[2J.py",
            "a\x85b\u2028c\u202ed\r\x07",
            (r"/srv/\x1b[2J.py", r"a\x85b\u2028c\u202ed\r\x07"),
            id="orders to a terminal",
        ),
        pytest.param("f" * 10_000, "n" * 10_000, ("f" * 500 + "...", "n" * 500 + "..."), id="long"),
        pytest.param("", "", ("", ""), id="empty"),
    ],
)
def test_a_name_can_be_no_more_than_one(readable: Readable, file: str, function: str, shown: tuple[str, str]) -> None:
    code = f"exec(compile({WAITS!r}, {file!r}, 'exec').replace(co_name={function!r}))"
    process, thread = readable.start(code)
    found = readable.resting(process, thread, at=(shown[0], 2))
    assert [function for *_, function in found] == ["<module>", "guilty", shown[1]]


BUSY = """
import json
class Each:
    def __iter__(self):
        yield from ([n] for n in range(20))
def work(n):
    return n if n == 0 else work(n - 1)
def spin():
    while True:
        work(30)
        json.loads(json.dumps({"a": [1, 2, {"b": "c" * 50}]}))
        sorted(Each(), key=lambda each: each[0])
        exec("def made(): return 1\\nmade()", {})
threads = [threading.Thread(target=spin, daemon=True) for _ in range(3)]
[thread.start() for thread in threads]
print(threads[0].native_id, flush=True)
sys.stdin.readline()
"""
# what the threads of this program can be in
KNOWN = re.compile(
    r"_bootstrap|_bootstrap_inner|run|spin|work|dumps|loads|decode|raw_decode|encode|iterencode|__init__|__iter__"
    r"|<genexpr>|<lambda>|<module>|made"
)


@pytest.mark.parametrize("looks", [100, pytest.param(200_000, marks=pytest.mark.nightly)])
def test_a_busy_process_can_be_read_for_ever(readable: Readable, looks: int) -> None:
    process, thread = readable.start(BUSY)
    whole = 0
    while whole < looks:
        frames = frames_of(readable.stack(process, thread))
        assert process.process.poll() is None, f"after {whole}"
        assert all(KNOWN.fullmatch(frame.function) for frame in frames), f"after {whole}: {frames}"
        whole += bool(frames) and frames[0].function == "_bootstrap"
    process.process.communicate("end\n")
    assert process.process.returncode == 0


# what cannot be read


def test_nobody_is_read_who_is_not_there(readable: Readable) -> None:
    process, thread = readable.start(WAITS)
    assert readable.stack(process, thread + 1_000_000) == ""
    process.end()
    assert readable.stack(process, thread) == ""
    assert stacks.read(stack_path(process.folder, "another"), os.getpid(), threading.get_native_id()) == ""


@pytest.mark.parametrize("told", ["", "readable", "readable 3.99 0x10 0x10", "readable 3.x 0x10 0x10", "\0" * 300])
def test_who_tells_nothing_or_something_else_is_not_read(tmp_path: Path, told: str) -> None:
    stack_path(tmp_path, "i").parent.mkdir()
    stack_path(tmp_path, "i").write_text(told + "\n")
    assert stacks.read(stack_path(tmp_path, "i"), os.getpid(), threading.get_native_id()) == ""


@pytest.mark.parametrize("address", [0, 1, 2**40, 2**63 - 1, 2**64 - 1, 2**80])
def test_false_addresses_are_found_out(address: int) -> None:
    true = own_whereabouts()
    assert true is not None
    for false in (
        dataclasses.replace(true, thread_state=address),
        dataclasses.replace(true, code_type=address),
        dataclasses.replace(true, thread_state=true.code_type),
    ):
        assert frames_of_thread(os.getpid(), threading.get_native_id(), false) == []


def line_or_torn(lines: bytes, first: int, at: int) -> int | None:
    """A line by its table; None: torn. Nothing else may come of memory that was given back and holds anything."""
    try:
        return foreign_frames._line(lines, first, at)
    except foreign_frames._TornError:
        return None


@pytest.mark.parametrize("first", [-(2**31), -1, 0])
def test_what_begins_on_no_line_is_nowhere_else(first: int) -> None:
    assert line_or_torn(line_or_torn.__code__.co_linetable, first, 0) in (None, first)


@given(lines=st.binary(max_size=200), first=st.integers(-(2**31), 2**31 - 1), at=st.integers(-10, 1 << 25))
def test_whatever_stands_there_as_a_table_does_no_harm(lines: bytes, first: int, at: int) -> None:
    line_or_torn(lines, first, at)


def test_whereabouts_are_read_as_they_were_written() -> None:
    true = own_whereabouts()
    assert true is not None
    assert Whereabouts.parsed(f"exit(3)\n{true}\nlane 0x0\n") == true


NUMBERS = [
    field.name
    for field in dataclasses.fields(Layout)
    if field.name not in ("to_frame", "other_text", "owner", "traceable")
]


@pytest.mark.parametrize("field", NUMBERS)
@pytest.mark.parametrize("by", [-8, 8, 16])
def test_a_build_whose_structures_lie_differently_tells_nothing(
    monkeypatch: pytest.MonkeyPatch, field: str, by: int
) -> None:
    version = sys.version_info[:2]
    layout = cpython_layout.LAYOUTS[version]
    changed = dataclasses.replace(layout, **{field: getattr(layout, field) + by})
    monkeypatch.setitem(cpython_layout.LAYOUTS, version, changed)
    assert own_whereabouts() is None


def test_a_version_that_nobody_knows_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign_frames, "LAYOUTS", {})
    assert own_whereabouts() is None
