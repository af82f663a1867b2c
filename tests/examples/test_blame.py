"""Who is blamed, as `make demo` shows it: five runs that block or kill their worker, and quick ones beside them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from examples.blame.promises import GUILTY, Fate, Promise, broken

ROOT = Path(__file__).parents[2]
_LIMIT_S = 170


def test_every_promise_is_kept(tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYRULA_", "XDG_"))}
    ended = subprocess.run(
        [sys.executable, "-m", "examples.blame.demo", "--runs", "60"],
        cwd=ROOT,
        env=environ | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "neighbours: 60 of 60 completed, 0 quarantined, 0 charges" in ended.stdout
    rows = [cells for line in ended.stdout.splitlines() if len(cells := line.split("│")) == 9]
    named = {cells[1].strip(): cells[2].strip() for cells in rows if cells[1].strip()}  # a long line goes on below
    assert named.keys() == {each.workflow for each in GUILTY}
    assert all(named[each.workflow] in (each.cause, each.or_cause) for each in GUILTY)
    assert list(tmp_path.iterdir()) == []


def test_make_demo_is_the_demonstration() -> None:
    told = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", "demo"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert told.rstrip().endswith("-m examples.blame.demo")


def run(status: str, *, detail: dict[str, Any] | None = None, charges: Sequence[object] = ()) -> dict[str, Any]:
    error = None if detail is None else {"detail": detail}
    return {"run_id": "r", "status": status, "charges": charges, "error": error, "created_ms": 0, "finished_ms": 1}


def out_for(cause: str, **evidence: str) -> dict[str, Any]:
    return run("quarantined", detail={"cause": cause, "evidence": evidence})


PROMISE = Promise(workflow="sleeper", deed="sleeps", cause="loop_blocked", step="nap", code="time.sleep(_HOUR_S)")
LINE = f"{PROMISE.place} in nap"
KEPT = out_for("loop_blocked", step="nap", line=LINE)


def test_kept_promises_are_no_breach() -> None:
    assert list(broken([(PROMISE, Fate(run=KEPT, named_s=1))], [Fate(run=run("completed"))])) == []


@pytest.mark.parametrize(
    ("guilty", "named_s", "neighbour", "words"),
    [
        (run("completed"), 1, run("completed"), "was not quarantined"),
        (out_for("crashed", step="nap", line=LINE), 1, run("completed"), "out for crashed"),
        (out_for("loop_blocked", step="x", line=LINE), 1, run("completed"), "in step x"),
        (
            out_for("loop_blocked", step="nap", line=f"{PROMISE.place}0 in nap"),
            1,
            run("completed"),
            "not at time.sleep",
        ),
        (out_for("loop_blocked", step="nap", line=""), 1, run("completed"), "at no line"),
        (KEPT, None, run("completed"), "never named"),
        (KEPT, 1, run("queued"), "neighbour r queued"),
        (KEPT, 1, run("completed", charges=["c"]), "charged 1 times"),
    ],
)
def test_each_broken_promise_is_told(
    guilty: dict[str, Any], named_s: float | None, neighbour: dict[str, Any], words: str
) -> None:
    (told,) = broken([(PROMISE, Fate(run=guilty, named_s=named_s))], [Fate(run=neighbour)])
    assert words in told
