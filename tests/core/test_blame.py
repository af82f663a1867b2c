"""Blame: what each kind of death means for who executed, who was in flight and who had not begun, case by case."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyrula_runtime.core.blame import (
    NOTHING,
    Budget,
    Cause,
    Charge,
    Death,
    Executing,
    Judgement,
    Mark,
    Record,
    cleared,
    current,
    opened_at,
)
from tests.core.deaths import BUDGET, HOUR_MS, ME, OTHER, OWN, after, at_step, death, told, unknown

# charges


@pytest.mark.parametrize("cause", OWN)
def test_the_only_one_in_flight_is_charged_if_it_was_executing(cause: Cause) -> None:
    judgement = after(death(cause, at_step()))
    assert told(judgement) == (1, False, True)
    (charge,) = judgement.record.charges
    assert charge.at_ms == 1_000
    assert (charge.evidence.cause, charge.evidence.op_id, charge.evidence.step) == (cause, "pay#1", "pay")
    assert (charge.evidence.for_ms, charge.evidence.line, charge.evidence.stack) == (40, "app.py:3", "the stack")


@pytest.mark.parametrize("cause", OWN)
def test_who_waited_when_its_worker_died_is_marked_though_it_was_alone(cause: Cause) -> None:
    assert told(after(death(cause))) == (0, True, False)


@pytest.mark.parametrize("cause", OWN)
def test_nobody_is_charged_on_a_torn_record(cause: Cause) -> None:
    assert told(after(unknown(cause))) == (0, True, False)
    assert told(after(unknown(Cause.killed))) == (0, False, False)


@pytest.mark.parametrize("cause", OWN)
def test_among_others_in_flight_nobody_is_charged(cause: Cause) -> None:
    one = death(cause, at_step(), in_flight=(ME, OTHER))
    assert told(after(one)) == (0, True, True)
    assert told(after(one, run_id=OTHER)) == (0, True, False)


def test_a_thread_that_a_turn_left_behind_is_a_neighbour() -> None:
    # its run went on elsewhere, its code did not stop here
    one = death(Cause.crashed, at_step(), at_step(OTHER))
    assert told(after(one)) == (0, True, True)


def test_whose_turn_had_not_begun_is_neither_charged_nor_marked_nor_a_neighbour() -> None:
    assert told(after(death(Cause.crashed, in_flight=()))) == (0, False, False)
    assert told(after(death(Cause.crashed, in_flight=(), cell=True))) == (0, False, False)
    assert told(after(death(Cause.crashed, at_step(OTHER), in_flight=(OTHER,)))) == (0, False, False)


def test_who_executes_is_there_though_the_table_had_no_place_for_it() -> None:
    assert told(after(death(Cause.crashed, at_step(), in_flight=(OTHER,)))) == (0, True, True)


@pytest.mark.parametrize("cell", [False, True])
def test_a_block_charges_the_guilty_and_nobody_else(*, cell: bool) -> None:
    one = death(Cause.loop_blocked, at_step(), at_step(OTHER), in_flight=(ME, OTHER), cell=cell, guilty=ME)
    assert told(after(one)) == (1, False, True)
    assert after(one, run_id=OTHER) == Judgement(record=NOTHING)


def test_a_block_whose_culprit_the_box_does_not_confirm_means_nothing_to_anybody() -> None:
    assert after(death(Cause.loop_blocked, at_step())) == Judgement(record=NOTHING)


def test_a_gil_that_nobody_knows_who_kept_marks_all_who_were_there() -> None:
    one = death(Cause.loop_blocked, at_step(), in_flight=(ME, OTHER), guilty=None)
    assert told(after(one)) == (0, True, True)
    assert told(after(one, run_id=OTHER)) == (0, True, False)
    assert told(after(one, one, run_id=OTHER)) == (0, True, True)
    assert told(after(death(Cause.loop_blocked, at_step(), guilty=None))) == (0, True, True), "alone, but in no cell"


def test_a_gil_that_was_kept_in_a_cell_was_kept_by_the_only_one_there() -> None:
    among = death(Cause.loop_blocked, at_step(), in_flight=(ME, OTHER), guilty=None)
    alone = death(Cause.loop_blocked, cell=True, guilty=None)
    assert told(after(among, alone)) == (2, False, True)
    left_behind = death(Cause.loop_blocked, at_step(OTHER), cell=True, guilty=None)
    assert told(after(left_behind)) == (0, True, False)


def test_the_duration_that_was_seen_is_better_than_that_of_the_box() -> None:
    one = death(Cause.loop_blocked, at_step(for_ms=100), guilty=ME)
    seen = replace(one, evidence=replace(one.evidence, for_ms=90_000, op_id="seen#1", step="seen"))
    (charge,) = after(seen).record.charges
    assert (charge.evidence.for_ms, charge.evidence.op_id, charge.evidence.step) == (90_000, "seen#1", "seen")


def test_of_several_pieces_of_code_the_longest_running_one_is_named() -> None:
    one = death(
        Cause.crashed, at_step(step="", for_ms=1), at_step(step="long", for_ms=9), at_step(step="new", for_ms=2)
    )
    (charge,) = after(one).record.charges
    assert charge.evidence.op_id == "long#1"


# marks and suspects


@pytest.mark.parametrize("cause", [Cause.crashed, Cause.exited, Cause.out_of_memory, Cause.store_frozen])
def test_the_executing_one_is_suspect_at_its_first_mark_the_others_at_their_second(cause: Cause) -> None:
    first, second = (death(cause, at_step(OTHER), in_flight=(ME, OTHER), at_ms=at_ms) for at_ms in (1_000, HOUR_MS))
    assert told(after(first, run_id=OTHER)) == (0, True, True)
    assert told(after(first)) == (0, True, False)
    assert told(after(first, second)) == (0, True, True)


def test_a_second_mark_after_the_window_is_a_first_one() -> None:
    first, second = (death(Cause.crashed, in_flight=(ME, OTHER), at_ms=at_ms) for at_ms in (1_000, 1_000 + HOUR_MS))
    judgement = after(first, second)
    assert told(judgement) == (0, True, False)
    assert [each.at_ms for each in judgement.record.marks] == [1_000 + HOUR_MS]


def test_a_kill_marks_only_what_was_executing() -> None:
    one = death(Cause.killed, at_step(), in_flight=(ME, OTHER))
    judgement = after(one)
    assert told(judgement) == (0, True, True)
    mark = Mark(at_ms=1_000, cause=Cause.killed, worker="w-1", op_id="pay#1", step="pay", executing=True)
    assert judgement.record.marks == (mark,)
    assert after(one, run_id=OTHER) == Judgement(record=NOTHING)


@pytest.mark.parametrize("cell", [False, True])
def test_a_decision_of_ours_means_nothing_but_forgets_what_is_too_old(*, cell: bool) -> None:
    suspect = after(death(Cause.killed, at_step())).record
    assert after(death(Cause.blameless, at_step(), at_ms=2_000, cell=cell), record=suspect) == Judgement(record=suspect)
    late = after(death(Cause.blameless, at_step(), at_ms=HOUR_MS + 1_000), record=suspect)
    assert late.record == Record(is_suspect=True)


# cells


@pytest.mark.parametrize("cause", OWN)
@pytest.mark.parametrize("executing", [(), (at_step(),), None])
def test_dying_in_a_cell_by_its_own_doing_convicts_with_every_mark(
    cause: Cause, executing: tuple[Executing, ...] | None
) -> None:
    near = (death(Cause.crashed, in_flight=(ME, OTHER)), death(Cause.store_frozen, in_flight=(ME, OTHER)))
    in_cell = replace(death(cause, cell=True), executing=executing)
    judgement = after(*near, in_cell)
    assert told(judgement) == (3, False, True)
    assert (judgement.record.marks, len(judgement.record.charges)) == ((), 3)
    assert judgement.error is None
    assert after(*near, in_cell, in_cell).error is not None


def test_a_block_in_a_cell_convicts_with_every_mark() -> None:
    near = death(Cause.crashed, at_step(), in_flight=(ME, OTHER))
    blocked = death(Cause.loop_blocked, at_step(), cell=True, guilty=ME)
    assert told(after(near, blocked)) == (2, False, True)


def test_a_charge_in_a_worker_leaves_the_marks_as_they_are() -> None:
    near = death(Cause.crashed, in_flight=(ME, OTHER))
    judgement = after(near, death(Cause.crashed, at_step()))
    assert (judgement.charged, len(judgement.record.marks)) == (1, 1)


@pytest.mark.parametrize(
    ("cause", "deed"),
    [(Cause.killed, "was killed again and again"), (Cause.store_frozen, "stood still with the store's write lock")],
)
def test_a_cell_that_is_killed_convicts_at_the_third_time_in_the_same_step(cause: Cause, deed: str) -> None:
    in_worker, in_cell = death(cause, at_step()), death(cause, at_step(), cell=True)
    assert told(after(in_worker, in_cell, in_cell)) == (0, True, True)
    third = after(in_worker, in_cell, in_cell, in_cell)
    assert third.charged == 1 + 3
    assert third.error is not None
    assert third.error.message == (f"its code {deed} in step 'pay' at app.py:3; 4 charges are more than are forgiven")


@pytest.mark.parametrize(
    "others",
    [
        (death(Cause.killed, at_step(step="ship"), cell=True),) * 2,  # elsewhere
        (death(Cause.killed, at_step()),) * 2,  # in workers
        (death(Cause.store_frozen, cell=True),) * 2,  # while it waited
        (death(Cause.killed, cell=True),) * 9,  # while it waited: no mark at all
        (unknown(Cause.killed, cell=True),) * 9,
    ],
)
def test_other_kills_do_not_count_towards_the_third(others: tuple[Death, ...]) -> None:
    in_cell = death(Cause.killed, at_step(), cell=True)
    assert told(after(*others, in_cell)) == (0, True, True)
    assert told(after(*others, in_cell, in_cell)) == (0, True, True)


def test_a_cell_frozen_while_its_run_waits_never_convicts() -> None:
    judgement = after(*(death(Cause.store_frozen, cell=True),) * 5)
    assert told(judgement) == (0, True, True)


def test_kills_in_the_body_are_kills_in_one_step() -> None:
    in_body = death(Cause.killed, at_step(step=""), cell=True)
    third = after(in_body, in_body, in_body)
    assert third.charged == 3
    assert third.record.charges[0].evidence.step == ""


# clearing


def test_a_suspect_that_came_past_the_place_is_cleared_but_for_its_charges() -> None:
    charged = after(death(Cause.crashed, at_step()), death(Cause.killed, at_step(), cell=True)).record
    assert cleared(charged) == Record(charges=charged.charges)


def test_the_place_is_what_was_open_at_every_mark_and_at_the_last_charge() -> None:
    assert opened_at(NOTHING) == frozenset()
    record = after(death(Cause.crashed, at_step(step="a")), death(Cause.killed, at_step(step="b"), cell=True)).record
    assert opened_at(record) == {"a#1", "b#1"}


@pytest.mark.parametrize("vague", [death(Cause.crashed, in_flight=(ME, OTHER)), death(Cause.killed, at_step(step=""))])
def test_a_place_that_is_not_known_of_every_mark_is_unknown(vague: Death) -> None:
    assert opened_at(after(death(Cause.killed, at_step()), vague).record) == frozenset()


# the budget


def test_past_the_budget_it_is_quarantined_with_its_evidence() -> None:
    blocked = replace(death(Cause.loop_blocked, at_step(), guilty=ME), in_cell=True)
    forgiven = after(*(blocked,) * 3)
    assert (forgiven.error, forgiven.record.is_suspect) == (None, True)
    judgement = after(blocked, record=forgiven.record)
    assert (judgement.charged, judgement.record.is_suspect, len(judgement.record.charges)) == (1, False, 4)
    assert judgement.error is not None
    assert judgement.error.type == "EventLoopBlocked"
    assert judgement.error.message == (
        "its code blocked its worker in step 'pay' at app.py:3; 4 charges are more than are forgiven"
    )
    assert judgement.error.detail == {
        "reason": "poison",
        "cause": "loop_blocked",
        "charges": 4,
        "evidence": {
            "step": "pay",
            "op_id": "pay#1",
            "duration_ms": 40,
            "line": "app.py:3",
            "stack": "the stack",
            "worker": "w-1",
            "pid": 7,
            "exit": "SIGSEGV",
            "rss_bytes": 0,
            "limit_bytes": 0,
        },
    }


@pytest.mark.parametrize(
    ("cause", "kind"),
    [(Cause.crashed, "WorkerCrashed"), (Cause.exited, "WorkerExited"), (Cause.out_of_memory, "OutOfMemory")],
)
def test_the_error_says_what_the_code_did_and_where(cause: Cause, kind: str) -> None:
    strict = Budget(max_retries=0)
    in_body, nowhere = (
        after(replace(one, evidence=replace(one.evidence, line="")), budget=strict).error
        for one in (death(cause, at_step(step="")), death(cause, cell=True))
    )
    assert in_body is not None
    assert nowhere is not None
    assert (in_body.type, nowhere.type) == (kind, kind)
    assert " in the workflow's body; 1 charges" in in_body.message
    assert " in " not in nowhere.message


def test_it_is_quarantined_for_what_its_code_did_though_kills_from_outside_came_after_it() -> None:
    killed = death(Cause.killed, at_step(), cell=True)
    judgement = after(death(Cause.crashed, at_step()), killed, killed, killed)
    assert judgement.error is not None
    assert (judgement.error.type, judgement.error.detail["cause"]) == ("WorkerCrashed", "crashed")


def test_charges_older_than_the_window_do_not_count() -> None:
    crashes = [death(Cause.crashed, at_step(), at_ms=number * HOUR_MS // 3) for number in range(12)]
    judgement = after(*crashes)
    assert (judgement.error, len(judgement.record.charges)) == (None, 3)


def test_only_the_newest_charges_keep_their_stacks() -> None:
    judgement = after(*(death(Cause.crashed, at_step()),) * 5, budget=Budget(max_retries=9))
    assert [each.evidence.stack for each in judgement.record.charges] == ["", "", *["the stack"] * 3]


def test_what_is_exactly_as_old_as_the_window_does_not_count() -> None:
    record = Record(charges=(Charge(at_ms=5, evidence=death(Cause.crashed, at_ms=5).evidence),))
    assert current(record, 4 + HOUR_MS, BUDGET) == record
    assert current(record, 5 + HOUR_MS, BUDGET) == NOTHING
