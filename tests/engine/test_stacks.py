"""What dying processes write down, and that only they do; and what a signal makes a living one write."""

from __future__ import annotations

import errno
import mmap
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pyrula_runtime import kernel, stacks
from pyrula_runtime.blackbox.layout import boxes_in
from pyrula_runtime.engine.lane_thread import LaneThread
from pyrula_runtime.engine.presence import Unrecorded
from pyrula_runtime.engine.threads import Threads
from pyrula_runtime.stacks import CrashNote, crash_of, stack_path
from pyrula_runtime.users_code import users_line
from tests.engine.dying import NAME, Dying

Starting = Callable[[str], Dying]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starting]:
    with ExitStack() as ends:

        def one(code: str) -> Dying:
            process = Dying(tmp_path, code)
            ends.callback(process.end)
            return process

        yield one


def note_of(process: Dying) -> CrashNote | None:
    return crash_of(stack_path(process.folder, NAME))


@pytest.mark.parametrize(
    ("code", "status", "kind", "what"),
    [
        ("ctypes.string_at(0)  # the guilty line", -signal.SIGSEGV, "signal", "SIGSEGV"),
        ("os.abort()  # the guilty line", -signal.SIGABRT, "signal", "SIGABRT"),
        ("os.kill(os.getpid(), signal.SIGBUS)  # the guilty line", -signal.SIGBUS, "signal", "SIGBUS"),
        ("os.kill(os.getpid(), signal.SIGFPE)  # the guilty line", -signal.SIGFPE, "signal", "SIGFPE"),
        ("os.kill(os.getpid(), signal.SIGILL)  # the guilty line", -signal.SIGILL, "signal", "SIGILL"),
        ("os._exit(7)  # the guilty line", 7, "exit", "7"),
        ("os._exit(0)  # the guilty line", 0, "exit", "0"),
    ],
)
def test_who_ends_the_process_is_named_with_the_line(
    start: Starting, code: str, status: int, kind: str, what: str
) -> None:
    process = start(code)
    assert process.died() == status
    note = note_of(process)
    assert note is not None
    assert (note.kind, note.what) == (kind, what)
    assert note.line.startswith(f"{process.program}:")
    assert note.line.endswith(f"in guilty: {code}")
    assert "in guilty" in note.stack


def test_a_thread_that_crashes_is_the_one_that_is_written_down(start: Starting) -> None:
    process = start(
        """
        thread = threading.Thread(target=lambda: ctypes.string_at(0))  # the guilty line
        thread.start()
        thread.join()
        """
    )
    assert process.died() == -signal.SIGSEGV
    note = note_of(process)
    assert note is not None
    assert note.line.endswith("# the guilty line")
    assert "join" not in note.stack


# a small stack, since newer versions of Python see to it that a large one is not filled
DEEPER = """
import functools
from pyrula_runtime.engine.lane_thread import LaneThread
from pyrula_runtime.engine.presence import Unrecorded
from pyrula_runtime.engine.threads import Threads
sys.setrecursionlimit(1_000_000)
threading.stack_size(1 << 18)
def deeper(*_):
    return functools.reduce(deeper, (0, 0))  # the guilty line
"""


@pytest.mark.parametrize(
    "where",
    [
        "lane = LaneThread(Unrecorded(), print)\nlane.loop.call_soon(deeper)\nlane.thread.start()\nlane.thread.join()",
        "Threads(1, 'any').submit(deeper).result()",
    ],
    ids=["lane", "thread"],
)
def test_who_overflows_the_stack_is_named_with_the_line(start: Starting, where: str) -> None:
    process = start(DEEPER + where)
    assert process.died() == -signal.SIGSEGV
    note = note_of(process)
    assert note is not None
    assert (note.kind, note.what) == ("signal", "SIGSEGV")
    assert note.line.endswith("# the guilty line")


def test_without_memory_for_a_signal_stack_threads_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: object) -> mmap.mmap:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(mmap, "mmap", none_left)
    assert Threads(1, "any").submit(lambda: 1).result() == 1
    lane = LaneThread(Unrecorded(), print)
    lane.loop.call_soon(lane.stop)
    lane.thread.start()
    lane.thread.join()
    assert lane.loop.is_closed()


def test_a_timer_that_nobody_winds_up_ends_the_process_with_the_lane_first(start: Starting) -> None:
    process = start(
        """
        main = threading.get_ident()
        threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
        word = stacks.LastWord(file, 0.2)
        word.wind_up(main)
        word.wind_up(main)
        ctypes.PyDLL(None).sleep(3600)  # the guilty line
        """
    )
    assert process.died() == 1
    note = note_of(process)
    assert note is not None
    assert (note.kind, note.what[:4]) == ("timeout", "0:00")
    assert note.line.endswith("# the guilty line")
    assert note.stack.count("hread 0x") == 2


def test_a_timer_that_is_wound_up_or_stopped_ends_nothing(start: Starting) -> None:
    process = start(
        """
        word = stacks.LastWord(file, 3)
        over = time.monotonic() + 4
        while time.monotonic() < over:
            word.wind_up(1)
            time.sleep(0.05)
        word.stop()
        """
    )
    assert process.died() == 0
    assert note_of(process) is None


@pytest.mark.parametrize("way_out", ["leaving.leave(3)", "leaving.quit_at_once(3)", "sys.exit(3)", "raise OSError"])
def test_our_own_way_out_is_no_last_word(start: Starting, way_out: str) -> None:
    process = start(way_out)
    assert process.died() in (1, 3)
    assert note_of(process) is None


@pytest.mark.parametrize("end", ["os._exit(7)", "ctypes.string_at(0)", "os.abort()"])
def test_a_forked_child_has_no_last_words_here(start: Starting, end: str) -> None:
    process = start(f"pid = os.fork()\nif pid == 0:\n    {end}\nos.waitpid(pid, 0)")
    assert process.died() == 0
    assert note_of(process) is None


def test_a_stack_that_was_asked_for_is_no_last_word(start: Starting) -> None:
    process = start("print('on', flush=True)\nsys.stdin.readline()  # it waits here\nos._exit(5)")
    process.said()
    path, pid = stack_path(process.folder, NAME), process.process.pid
    text = ""
    while not users_line(text).endswith("# it waits here"):  # it may have been on its way there
        begin = stacks.ask(path, pid, pid)
        assert begin is not None
        while not (text := stacks.written(path, begin)).endswith("<module>\n"):
            assert process.process.poll() is None
    assert note_of(process) is None
    process.process.communicate("go on\n")
    note = note_of(process)
    assert note is not None
    assert note.line.endswith("os._exit(5)")


def test_the_last_of_several_counts_and_names_of_modules_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.stack"
    path.write_text(
        'exit(3)\nStack (most recent call first):\n  File "/app.py", line 3 in a\n'
        'Fatal Python error: Something else\n\nStack (most recent call first):\n  File "/app.py", line 4 in b\n'
        "\nExtension modules: orjson (total: 1)\n"
    )
    note = crash_of(path)
    assert note == CrashNote(
        kind="signal",
        what="Something else",
        stack='Stack (most recent call first):\n  File "/app.py", line 4 in b',
        line="/app.py:4 in b",
    )


def test_nothing_was_written(tmp_path: Path) -> None:
    assert crash_of(tmp_path / "never made") is None
    (tmp_path / "empty").touch()
    assert crash_of(tmp_path / "empty") is None
    assert users_line("no stack at all") == ""


def test_the_file_of_the_dead_stays_as_long_as_their_box(tmp_path: Path) -> None:
    stack_path(tmp_path, "any").parent.mkdir()
    for name in ("with", "without"):
        stack_path(tmp_path, name).touch()
    boxes_in(tmp_path).mkdir()
    (boxes_in(tmp_path) / "with.box").touch()
    stacks.sweep(tmp_path)
    assert [stack_path(tmp_path, name).exists() for name in ("with", "without")] == [True, False]


def test_a_signal_makes_a_thread_that_keeps_the_gil_write_again_and_again(start: Starting) -> None:
    waits = "ctypes.PyDLL(None).read(0, ctypes.create_string_buffer(9), 9)"
    process = start(f"print('on', flush=True)\n{waits}")
    process.said()
    path, pid = stack_path(process.folder, NAME), process.process.pid
    for number in range(200):
        begin = stacks.ask(path, pid, pid)
        assert begin is not None, f"dump {number}"
        while not (text := stacks.written(path, begin)).endswith("<module>\n"):  # the outermost frame
            assert process.process.poll() is None, f"dump {number}"
    assert path.read_text().count("(most recent call first)") == 200
    assert users_line(text).endswith(waits)


def test_without_a_signal_nobody_can_be_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "STACK_SIGNAL", None)
    (tmp_path / "stacks").mkdir()
    stack_path(tmp_path, "i").touch()
    assert stacks.offer(tmp_path, "i") is None
    assert stacks.ask(stack_path(tmp_path, "i"), 1, threading.get_native_id()) is None
