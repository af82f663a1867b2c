"""What is held against a run, from the command line: evidence, suspects, and why one waits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pyrula.workflows import WorkflowClient, open_store
from pyrula_runtime import users_code
from pyrula_runtime.cli.evidence import print_evidence, stack_lines
from pyrula_runtime.core.blame import Cause
from pyrula_runtime.stores.protocol import Store
from tests.cli.sites import Site
from tests.client.convicts import LINE, quarantined, suspected


def filled(site: Site, *acts: Callable[[Store], Awaitable[object]]) -> list[str]:
    """A run of `order` for each act, which is done to it."""

    async def fill() -> list[str]:
        store = open_store(site.store)
        async with WorkflowClient(store) as client:
            ids = [(await client.submit("order", run_id=f"r-{number}")).run_id for number in range(len(acts))]
            for act in acts:
                await act(store)
        return ids

    return asyncio.run(fill())


def minutes_ago(count: int) -> Callable[[], int]:
    at_ms = time.time_ns() // 1_000_000 - count * 60_000 - 1_000
    return lambda: at_ms


def test_a_quarantined_run_shows_its_evidence(site: Site) -> None:
    (run_id,) = filled(site, lambda store: quarantined(store, "order", now_ms=minutes_ago(3)))
    shown = site.answer("runs", "show", run_id)
    assert f"EventLoopBlocked: its code blocked its worker in step 'polite' at {LINE}; 4 charges" in shown
    facts = shown.split("\n\n")[2]
    told = dict(line.split(maxsplit=1) for line in facts.splitlines() if line[0] != " ")
    assert told["cause"] == "loop_blocked: its code kept the event loop or the GIL of its worker past the limit"
    assert told["step"] == "polite (polite#1)"
    assert told["line"] == LINE
    assert told["for"] == "94 s"
    assert told["when"].endswith("(3 min ago)")
    assert told["worker"] == "w-0 (pid 4711)"
    assert told["exit"] == "was killed by SIGKILL"
    assert told["memory"] == "52.0 MB"
    assert told["stack"] == 'File "/srv/app/orders.py", line 31, in pay'
    assert "await asyncio.sleep()" in told["hint"]
    assert "evidence = {" not in shown
    *_, row = shown.splitlines()
    assert " ".join(row.split()) == "charged 4 times 3 min ago loop_blocked polite 94 s w-0 was killed by SIGKILL"


@pytest.mark.parametrize(
    ("exit_text", "means", "advice"),
    [
        ("ended itself, since it had stood still for 90 s", "no supervisor and ended itself", "regular expression"),
        ("was killed by SIGKILL", "was killed, nobody knows why", "journalctl"),
    ],
)
def test_a_worker_that_ended_itself_is_told_from_one_that_was_killed(
    exit_text: str, means: str, advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    charge: dict[str, Any] = dict.fromkeys(("step", "op_id", "worker", "stack"), "") | {
        **dict.fromkeys(("at_ms", "for_ms", "pid", "rss_bytes", "limit_bytes"), 0),
        "cause": "killed",
        "exit": exit_text,
        "line": "/srv/app.py:7 in find: re.match(pattern, text)",
    }
    print_evidence({"charges": [charge], "marks": [], "error": None}, 60_000)
    shown = capsys.readouterr().out
    assert means in shown
    assert advice in shown


def test_whoever_waits_for_it_is_told_where_its_evidence_is(site: Site) -> None:
    (run_id,) = filled(site, lambda store: quarantined(store, "order"))
    done = site.pyrula("submit", "order", "null", "--run-id", run_id, "--wait")
    assert (done.returncode, done.stdout) == (1, "")
    *_, last = done.stderr.splitlines()
    assert last.startswith(
        f"pyrula: run {run_id} was quarantined: EventLoopBlocked: its code blocked its worker in step"
    )
    assert last.endswith(f"; see pyrula runs show {run_id}")


def test_programs_are_told_all_of_it(site: Site) -> None:
    (run_id,) = filled(site, lambda store: quarantined(store, "order"))
    told = site.document("runs", "show", run_id)
    assert [each["cause"] for each in told["charges"]] == ["loop_blocked"] * 4
    assert told["error"]["detail"]["evidence"]["stack"] == told["charges"][-1]["stack"]
    assert (told["marks"], told["suspect"]) == ([], False)


def test_a_suspect_is_listed_shown_and_explained(site: Site) -> None:
    suspect, _ = filled(site, lambda store: suspected(store, "order"), nothing)
    (listed,) = site.document("runs", "list", "--suspects")
    assert (listed["run_id"], listed["suspect"], listed["status"]) == (suspect, True, "queued")
    assert "a suspect: it is tried again alone" in site.answer("runs", "list")
    assert site.document("runs", "list", "--suspects", "--workflow", "mail") == []
    shown = site.answer("runs", "show", suspect)
    assert "suspect   yes: it is tried again alone" in shown
    *_, row = shown.splitlines()
    assert row.split()[0] == "marked"
    assert row.endswith("it was executing")


async def nothing(_store: Store) -> None: ...


def test_why_tells_what_became_of_a_quarantined_run(site: Site) -> None:
    (run_id,) = filled(site, lambda store: quarantined(store, "order", Cause.crashed))
    told = site.answer("runs", "why", run_id)
    assert "WorkerCrashed: its code crashed its worker in step 'polite'" in told
    assert f"After a fix: pyrula runs requeue {run_id}; for all like it: pyrula runs requeue --cause crashed" in told


def test_why_tells_who_will_take_a_suspect(site: Site) -> None:
    worker = site.serving("--worker-id", "w-1", "--max-concurrent-runs", "1")
    site.answer("submit", "stuck")
    worker.said("waits for ever")
    (run_id,) = filled(site, lambda store: suspected(store, "order"))
    told = site.answer("runs", "why", run_id)
    assert "it is a suspect, because a worker was lost with it, and is tried again alone." in told
    assert f"worker w-1 (pid {worker.process.pid} on " in told
    assert "takes it when it has finished the 1 that it runs now. What is held against it: pyrula runs show" in told


STACK = f"""Current thread 0x0000 (most recent call first):
  File "{users_code._STDLIB}/threading.py", line 320 in wait
  File "/srv/app/orders.py", line 7 in polite
  File "/srv/app/orders.py", line 31 in pay
  File "{users_code._OURS}/engine/lane.py", line 90 in run
  File "{users_code._STDLIB}/threading.py", line 1012 in run
"""


def test_a_stack_is_cut_to_the_users_own_frames() -> None:
    assert list(stack_lines(STACK)) == [
        'File "/srv/app/orders.py", line 31, in pay',
        'File "/srv/app/orders.py", line 7, in polite',
        "in it, Python's own:",
        f'File "{users_code._STDLIB}/threading.py", line 320, in wait',
        "(and 2 of Python's and Pyrula's own; --json has all)",
    ]


@pytest.mark.parametrize(
    "stack", ["", "exit(7)\n", f'  File "{users_code._STDLIB}/re.py", line 1, in match\n    return x']
)
def test_a_stack_without_frames_of_the_users_is_shown_whole(stack: str) -> None:
    assert "\n".join(stack_lines(stack)) == stack.strip("\n")


def test_a_stack_that_ends_in_the_users_code_needs_no_more() -> None:
    own = '  File "/srv/app/orders.py", line 7, in polite\n    time.sleep(s)\n'
    assert list(stack_lines(own)) == ['File "/srv/app/orders.py", line 7, in polite', "  time.sleep(s)"]
