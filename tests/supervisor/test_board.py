"""The status as people see it, of states made for it: wide and narrow, well and not."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from pyrula_runtime.wire import Blocked
from pyrula_supervisor import status
from pyrula_supervisor.actions import Incident
from pyrula_supervisor.cli.board import board
from pyrula_supervisor.facts import Facts, Noted
from pyrula_supervisor.model import Pace, Slot, State
from pyrula_supervisor.tables import ChildState
from pyrula_supervisor.weights import Weight
from tests.supervisor.states import IDENTITY, NOW_MS, WALL_MS, clerk, queue, report, supervised, worker

WEIGHTS = {"w0": Weight(rss_bytes=31_600_000, uss_bytes=7_600_000, cpu_percent=12.4)}
PYTHON_STACK = "\n".join(["Traceback", *(f"  File {depth}" for depth in range(20)), "    time.sleep(9)"])
GIL_STACK = "\n".join(
    ["Stack (most recent call first):", "  File re.py in match", *(f"  outer {i}" for i in range(20))]
)


def shown(state: State, width: int = 140, **facts: Any) -> str:
    out = io.StringIO()
    document = status.document(state, Facts(identity=IDENTITY, **facts), NOW_MS, WALL_MS)
    Console(file=out, width=width, highlight=False).print(board(document))
    return out.getvalue()


def row(text: str, place: str) -> list[str]:
    return next(line.split() for line in text.splitlines() if line.startswith(f"{place} "))


def blocked_by(stack: str, *, gil_held: bool = False) -> State:
    by = Blocked(
        incarnation="w1",
        run_id="01RUN",
        workflow="order",
        step="pay",
        for_s=3.0,
        line="app.py:7",
        stack=stack,
        gil_held=gil_held,
    )
    return supervised([worker(0), worker(1, state=ChildState.blocked, blocked=by, blocked_ms=NOW_MS), clerk()])


def test_a_well_one_at_a_glance() -> None:
    text = shown(
        supervised(),
        weights=WEIGHTS,
        rates={"w0": 12.5},
    )
    assert "default  running  2/2 ready, pid 4000, up 90 s, generation 1, version 1.2.3" in text
    assert "spawn (the app has 3 threads)" in text
    assert "http://127.0.0.1:8081" in text
    assert "sqlite:////srv/pyrula.db, well for 80 s" in text
    assert "3 queued, 2 running" in text
    assert " ".join(row(text, "0")) == "0 5000 ready 60 s 2/50 12.5 2 ms 31.6 MB 12% 0"
    assert row(text, "clerk")[:2] == ["clerk", "4999"]
    for word in ("not as it should be", "blocked", "lately"):
        assert word not in text


def test_who_leases_how_many_shards_is_shown_where_there_are_several() -> None:
    workers = [worker(number, report=report(f"w{number}", shards=8 * (number == 1))) for number in range(2)]
    assert "shards   leased: 8 by 1" in shown(supervised(workers))
    assert "shards" not in shown(supervised([worker(0)]))


def test_a_blocked_run_is_named_with_step_line_and_where_it_is() -> None:
    text = shown(blocked_by(PYTHON_STACK))
    assert "worker 1 for 3.0 s: run 01RUN (order), step pay, at app.py:7" in text
    assert "time.sleep(9)" in text
    assert "File 0\n" not in text
    assert "not as it should be" in text


def test_a_stack_taken_with_the_gil_held_is_shown_from_its_innermost_frame() -> None:
    text = shown(blocked_by(GIL_STACK, gil_held=True))
    assert "with the GIL held" in text
    assert "re.py in match" in text
    assert "outer 19" not in text


def test_silence_backoff_and_incidents_are_seen() -> None:
    slots = (
        Slot(number=0),
        Slot(number=1, pace=Pace(failures=2, retry_ms=NOW_MS + 8_000), restarts=2, last_exit="worker 1 (pid 7) exited"),
    )
    incident = Incident(kind="death", text="worker 1 (pid 7) was killed by SIGSEGV\nwith more", slot=1)
    text = shown(
        supervised([worker(0, reported_ms=NOW_MS - 9_000), clerk()], slots=slots),
        incidents=(Noted(at_ms=WALL_MS - 4_000, incident=incident),),
    )
    assert row(text, "0")[2] == "silent"
    assert row(text, "1")[1:3] == ["-", "backoff"]
    assert "worker 0 has not been heard of for 9.0 s" in text
    assert "worker 1 is started again in 8.0 s" in text
    assert "4.0 s ago: worker 1 (pid 7) was killed by SIGSEGV …" in text


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (supervised(queue=None), "nothing was heard of it yet"),
        (supervised(queue=queue(store_ok=False, store_fault="the disk is full")), "does not serve for 80 s: the disk"),
        (supervised(queue_ms=NOW_MS - 30_000), "the clerk is silent since then"),
    ],
)
def test_the_store_is_told_as_it_is(state: State, words: str) -> None:
    assert words in shown(state)


def test_a_narrow_terminal_keeps_every_number_whole() -> None:
    slots = (Slot(number=0, last_exit="worker 0 (pid 9) exited with code 1 after 3 s"), Slot(number=1))
    text = shown(supervised(slots=slots), width=80, weights=WEIGHTS)
    assert max(map(len, text.splitlines())) <= 80
    assert " ".join(row(text, "0")) == "0 5000 ready 60 s 2/50 0.0 2 ms 31.6 MB 12% 0"
    assert "last exit of 0: (pid 9) exited with code 1 after 3 s" in text
    wide = shown(supervised(slots=slots), width=120, weights=WEIGHTS)
    assert " ".join(row(wide, "0")).endswith("12% 0 (pid 9) exited with code 1 after 3 s")


def test_a_terminal_obeys_nothing_that_is_shown() -> None:
    state = supervised(queue=queue(store_ok=False, store_fault="\x1b]0;owned\x07 [red]not markup[/red]"))
    text = shown(state)
    assert "\x1b" not in text
    assert "[red]not markup[/red]" in text
