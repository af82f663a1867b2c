"""What a rehearsal is told to mean, for every way in which a run and its copy can end."""

from __future__ import annotations

import pytest

from pyrula_runtime.core.entries import Op
from pyrula_runtime.core.errors import ErrorRecord
from pyrula_runtime.core.rehearsing import End, verdict
from pyrula_runtime.core.status import RunStatus
from tests.core.journals import op

S = RunStatus
RUNNING, PAUSED, WAITING = End(status=S.running), End(status=S.paused), End(status=S.waiting)
DONE, OTHER = End(status=S.completed, value=1), End(status=S.completed, value="x" * 300)
BROKEN = End(status=S.failed, error=ErrorRecord(type="ValueError", message="no\nmore"))
TIMED = End(status=S.failed, error=ErrorRecord(type="RunTimeout", message=""))
MISMATCH = End(status=S.paused, error=ErrorRecord(type="JournalMismatch", message="a, not b"))
HINTED = End(status=S.paused, error=ErrorRecord(type="JournalMismatch", message="a, not b", detail={"hint": "do c"}))
STEPS = [op("a#1"), op("b#1")]


@pytest.mark.parametrize(
    ("real", "copy", "next_steps", "fits", "words"),
    [
        (
            RUNNING,
            RUNNING,
            STEPS,
            True,
            "all of it was replayed; next the code performs step 'a' (a#1), step 'b' (b#1)",
        ),
        (BROKEN, RUNNING, STEPS[:1], True, "next the code performs step 'a' (a#1)"),
        (DONE, RUNNING, STEPS[:1], False, "the run has completed, but the code would go on with step 'a' (a#1)"),
        (RUNNING, MISMATCH, [], False, "a, not b"),
        (RUNNING, HINTED, [], False, "a, not b; do c"),
        (DONE, End(status=S.paused), [], False, ""),
        (WAITING, WAITING, [], True, "all of it was replayed; the code waits, for a time, a signal or a child"),
        (DONE, WAITING, [], False, "the run has completed, but all of it was replayed; the code waits"),
        (PAUSED, DONE, [], True, "all of it was replayed, and the code ends: completed with 1"),
        (End(status=S.quarantined), BROKEN, [], True, "the code ends: failed with ValueError: no"),
        (DONE, DONE, [], True, "the code ends as the run did: completed with 1"),
        (BROKEN, BROKEN, [], True, "the code ends as the run did: failed with ValueError: no"),
        (End(status=S.cancelled), End(status=S.cancelled), [], True, "the code ends as the run did: cancelled"),
        (DONE, OTHER, [], False, f"the run ended: completed with 1; the code now ends: completed with '{'x' * 199}…"),
        (
            BROKEN,
            TIMED,
            [],
            False,
            "the run ended: failed with ValueError: no; the code now ends: failed with RunTimeout",
        ),
        (BROKEN, DONE, [], False, "the code now ends: completed with 1"),
    ],
)
def test_the_verdict(real: End, copy: End, next_steps: list[Op], *, fits: bool, words: str) -> None:
    told = verdict(real, copy, next_steps)
    assert told.fits is fits
    assert words in told.sentence
