"""Stacks put together, and taken apart: as `traceback` and as `faulthandler` really write them."""

from __future__ import annotations

import faulthandler
import tempfile
import threading
import traceback
from collections.abc import Callable

import pytest

from pyrula_runtime.core.frames import Frame, as_text, frames_of, inside, plain, run_of, stacks_of

TWO_THREADS = """Fatal Python error: Segmentation fault

Current thread 0x00007f (most recent call first):
  File "/srv/app.py", line 9 in inner
  File "/srv/app.py", line 5 in outer

Thread 0x00007e (most recent call first):
  File "/usr/lib/threading.py", line 320 in wait
"""
OUTER = Frame(file="/srv/app.py", line=5, function="outer")
INNER = Frame(file="/srv/app.py", line=9, function="inner")


def written_by_traceback() -> str:
    return "".join(traceback.format_stack())


def written_by_faulthandler() -> str:
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file, all_threads=False)
        file.seek(0)
        return file.read()


@pytest.mark.parametrize("write", [written_by_traceback, written_by_faulthandler])
def test_the_frames_of_a_real_stack_come_outermost_first(write: Callable[[], str]) -> None:
    frames = frames_of(write())
    *_, caller, writer = frames
    assert (writer.function, writer.file, caller.function) == (
        write.__name__,
        __file__,
        "test_the_frames_of_a_real_stack_come_outermost_first",
    )
    assert caller.source in ("frames = frames_of(write())", "")
    assert len(frames) > 10


def test_only_the_first_thread_counts() -> None:
    assert frames_of(TWO_THREADS) == (OUTER, INNER)


def test_source_is_what_stands_below_and_nothing_else() -> None:
    first = 'Traceback:\n  File "a.py", line 1, in f\n    g(x)\n    ^^^^\n'
    told = first + '  File "b.py", line 2, in g\n  File "c.py", line 3, in h'
    assert [str(each) for each in frames_of(told)] == ["a.py:1 in f: g(x)", "b.py:2 in g", "c.py:3 in h"]
    assert frames_of("no stack at all") == ()


def test_what_a_line_called() -> None:
    frames = (OUTER, INNER)
    assert inside(frames, "/srv/app.py:5 in outer: inner()") == (INNER,)
    assert inside(frames, "/srv/app.py:9 in inner") == ()
    assert inside(frames, "/srv/other.py:5 in outer") == (INNER,)
    assert inside((), "/srv/app.py:5 in outer") == ()


def test_a_thread_that_has_nobody_named_is_taken_apart_too() -> None:
    told: list[tuple[Frame, ...]] = []
    thread = threading.Thread(target=lambda: told.append(frames_of(written_by_faulthandler())))
    thread.start()
    thread.join()
    assert told[0][-1].function == "written_by_faulthandler"


def test_a_text_of_several_stacks_is_told_apart_by_their_titles() -> None:
    lane = '  File "sel.py", line 4, in select\n    wait()\n'
    runs = [f'run {name} (order, step pay) is at\n  File "/srv/{name}.py", line 2, in pay\n' for name in ("r1", "r2")]
    assert stacks_of(lane + "\n" + "".join(runs)) == (lane + "\n", *runs)
    assert [run_of(stack) for stack in stacks_of(lane + "".join(runs))] == ["", "r1", "r2"]
    assert [each.file for each in frames_of(lane + "".join(runs))] == ["sel.py"]
    assert [run_of(stack) for stack in stacks_of(TWO_THREADS)] == ["", ""]
    assert stacks_of("") == ("",)


def test_what_is_written_is_read_again_as_it_was() -> None:
    frames = (OUTER, Frame(file="/srv/other app.py", line=12, function="<lambda>", source="lambda: inner(1)"), INNER)
    text = as_text(frames)
    assert text.splitlines()[1:3] == ['  File "/srv/other app.py", line 12, in <lambda>', "    lambda: inner(1)"]
    assert frames_of(text) == frames
    assert as_text(()) == ""


@pytest.mark.parametrize(("times", "told"), [(3, None), (4, "repeated 1 more time]"), (9, "repeated 6 more times]")])
def test_a_recursion_is_written_as_traceback_does(times: int, told: str | None) -> None:
    text = as_text([OUTER, *[INNER] * times, OUTER])
    theirs = traceback.StackSummary.from_list(
        [
            traceback.FrameSummary(each.file, each.line, each.function, line="")
            for each in [OUTER, *[INNER] * times, OUTER]
        ]
    )
    assert text == "".join(theirs.format())
    assert told is None or told in text
    assert len(frames_of(text)) == 5


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("größe_値", "größe_値"),
        ("<listcomp>", "<listcomp>"),
        ('a\n  File "/srv/innocent.py", line 3, in b', r"a\n  File \x22/srv/innocent.py\x22, line 3, in b"),
        ("\x1b[31mred\r\u2028\u202e\ud800", r"\x1b[31mred\r\u2028\u202e\ud800"),
        ("n" * 501, "n" * 500 + "..."),
    ],
)
def test_a_name_is_no_more_than_a_name(name: str, told: str) -> None:
    assert plain(name) == told
    frames = [Frame(file=plain(name), line=1, function=plain(name)), INNER]
    assert frames_of(as_text(frames)) == tuple(frames)
