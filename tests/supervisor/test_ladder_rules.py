"""The rules of the ladder and of what deaths are blamed on, as tables."""

from __future__ import annotations

import os

import pytest

from pyrula_runtime.core.deaths import Cause
from pyrula_runtime.core.standstill import Verdict
from pyrula_runtime.options import PoisonOptions, WorkerOptions
from pyrula_runtime.wire import Finding, Role
from pyrula_supervisor import exits, ladder
from pyrula_supervisor.events import Exited
from pyrula_supervisor.findings import line_of, of_death, taker_of
from pyrula_supervisor.ladder import Rung
from pyrula_supervisor.model import Sentence
from pyrula_supervisor.options import Policy, SupervisorOptions
from pyrula_supervisor.tables import ChildState
from tests.supervisor.states import NOW_MS, report, worker

POLICY = Policy()


@pytest.mark.parametrize(
    ("stuck_ms", "rung"),
    [
        (0, Rung.ground),
        (1_999, Rung.ground),
        (2_000, Rung.warned),
        (2_249, Rung.warned),
        (2_250, Rung.told),
        (4_999, Rung.told),
        (5_000, Rung.replaced),
        (29_999, Rung.replaced),
        (30_000, Rung.evacuated),
        (89_999, Rung.evacuated),
        (90_000, Rung.ended),
    ],
)
def test_each_rung_has_its_height(stuck_ms: int, rung: Rung) -> None:
    assert ladder.rung_at(stuck_ms, POLICY, POLICY.block_limit_ms) is rung


def test_rungs_that_were_passed_between_two_looks_are_all_climbed() -> None:
    assert list(ladder.climb(Rung.warned, Rung.evacuated)) == [Rung.told, Rung.replaced, Rung.evacuated]
    assert list(ladder.climb(Rung.evacuated, Rung.evacuated)) == []


@pytest.mark.parametrize(("workflow", "limit_ms"), [("", 90_000), ("short", 90_000), ("long", 600_000)])
def test_a_workflow_may_block_as_long_as_its_timeout_if_that_is_longer(workflow: str, limit_ms: int) -> None:
    assert ladder.limit_of(workflow, {"short": 5_000, "long": 600_000}, POLICY) == limit_ms


@pytest.mark.parametrize(
    ("stuck_ms", "after_ms"), [(0, 2_000), (500, 1_500), (2_000, 250), (3_000, 2_000), (89_999, 1), (90_000, None)]
)
def test_the_next_look_is_due_when_the_next_rung_may_be_reached(stuck_ms: int, after_ms: int | None) -> None:
    assert ladder.next_ms(stuck_ms, POLICY) == after_ms


@pytest.mark.parametrize("verdict", list(Verdict))
def test_who_stands_in_for_whom(verdict: Verdict) -> None:
    held = verdict in (Verdict.held_on_cpu, Verdict.held_waiting, Verdict.held_elsewhere)
    unknown = verdict in (Verdict.starved, Verdict.collecting, Verdict.observer_late)
    assert ladder.is_mute(verdict, before=True) is (held or unknown)
    assert ladder.is_mute(verdict, before=False) is held


def test_a_policy_is_made_of_the_workers_options() -> None:
    worker_options = WorkerOptions(
        lock_ttl=9, block_warn=0.5, replace_after=1, evacuate_after=3, poison=PoisonOptions()
    )
    policy = Policy.of(SupervisorOptions(), worker_options)
    assert (policy.lock_ttl_ms, policy.block_limit_ms, policy.stand_in_ms) == (9_000, 27_000, 2_250)
    assert (policy.block_warn_ms, policy.replace_after_ms, policy.evacuate_after_ms) == (500, 1_000, 3_000)
    assert Policy.of(SupervisorOptions(), WorkerOptions()).evacuate_after_ms == 30_000
    assert Policy(lock_ttl_ms=1_000).stand_in_ms == 250


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        (0, Cause.blameless),
        (143, Cause.blameless),
        (130, Cause.blameless),
        (-15, Cause.blameless),
        (-2, Cause.blameless),
        (78, Cause.blameless),
        (1, Cause.exited),
        (7, Cause.exited),
        (-11, Cause.crashed),
        (-6, Cause.crashed),
        (-7, Cause.crashed),
        (-8, Cause.crashed),
        (-4, Cause.crashed),
        (-9, Cause.killed),
        (-31, Cause.killed),
    ],
)
def test_what_an_exit_status_is_blamed_on(status: int, cause: Cause) -> None:
    assert exits.cause_of(status) is cause
    died = Exited(now_ms=NOW_MS, incarnation="w0", pid=5000, status=status)
    assert of_death(worker(0), died, POLICY).cause == cause


def test_what_explains_an_end_otherwise() -> None:
    assert exits.cause_of(1, loop_failed=True) is Cause.blameless
    assert exits.cause_of(-9, out_of_memory=True) is Cause.out_of_memory
    assert exits.cause_of(-11, out_of_memory=True) is Cause.crashed


@pytest.mark.parametrize(
    ("peak", "by_kernel", "cause"), [(199, False, "killed"), (200, False, "out_of_memory"), (0, True, "out_of_memory")]
)
def test_a_kill_is_for_memory_if_there_is_evidence(peak: int, *, by_kernel: bool, cause: str) -> None:
    died = Exited(now_ms=NOW_MS, incarnation="w0", pid=1, status=-9, max_rss_bytes=peak, by_kernel=by_kernel)
    found = of_death(worker(0), died, Policy(max_rss_bytes=100))
    assert (found.cause, found.rss_bytes, found.limit_bytes, found.exit) == (cause, peak, 100, "was killed by SIGKILL")


def test_a_death_of_our_own_making_has_the_reason_that_we_had() -> None:
    told = Finding(cause="loop_blocked", guilty="r1", entries=7, for_ms=90_000, line="a.py:1", stack="File")
    sentence = Sentence(finding=told, why="", at_ms=0)
    killed = worker(-1, incarnation="w0", state=ChildState.killed, sentence=sentence, role=Role.cell)
    died = Exited(now_ms=NOW_MS, incarnation="w0", pid=4999, status=-9)
    found = of_death(killed, died, POLICY)
    assert (found.cause, found.guilty, found.entries, found.for_ms) == ("loop_blocked", "r1", 7, 90_000)
    assert (found.line, found.stack, found.in_cell, found.worker, found.pid) == ("a.py:1", "File", True, "cell", 4999)
    # it was faster
    assert of_death(killed, Exited(now_ms=NOW_MS, incarnation="w0", pid=1, status=-11), POLICY).cause == "crashed"
    # it had to go for nothing that its runs did
    plain = worker(0, state=ChildState.killed)
    assert of_death(plain, died, POLICY).cause == "blameless"
    failed = worker(0, report=report("w0", loop_failed="renewals"))
    assert of_death(failed, Exited(now_ms=NOW_MS, incarnation="w0", pid=1, status=1), POLICY).cause == "blameless"


def test_the_line_of_a_stack_is_the_innermost_of_the_users_code() -> None:
    import re

    stack = f'''Current thread 0x1 (most recent call first):
  File "{re.__file__}", line 166 in match
  File "/srv/app.py", line 9 in slow
  File "/srv/app.py", line 3 in run
'''
    assert line_of(stack) == "/srv/app.py:9 in slow"
    assert line_of(f'  File "{re.__file__}", line 166 in match') == ""
    assert line_of("nothing of use") == ""


def test_who_takes_the_memory_is_the_only_run_if_there_is_one() -> None:
    lane = f'  File "{os.__file__}", line 4, in select\n    wait()\n'
    body = 'run r1 (order, its body) has a thread at\n  File "/srv/app.py", line 2, in order\n'
    step = 'run r1 (order, step pay) is at\n  File "/srv/app.py", line 7, in pay\n    await more()\n'
    other = 'run r2 (order, step pay) is at\n  File "/srv/app.py", line 7, in pay\n    await more()\n'
    assert taker_of(lane + body + step) == ("/srv/app.py:7 in pay: await more()", step)
    assert taker_of(lane + body) == ("/srv/app.py:2 in order", body)
    assert taker_of(lane + step + other) == ("", lane + step + other)
    assert taker_of(lane) == ("", lane)
    waits = f'run r1 (order, step pay) is at\n  File "{os.__file__}", line 4, in wait\n'
    assert taker_of(lane + waits) == ("", lane + waits)
