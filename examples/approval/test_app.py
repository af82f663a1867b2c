"""Tests of the workflow beside this: weeks pass in milliseconds, steps are faked, and crashes happen everywhere.

pytest needs no plugin for them, and they need neither worker nor store.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

from examples.approval.app import Expense, approve_expense, mail_manager, pay
from pyrula.testing import Simulation, attempts, crash_everywhere
from pyrula.workflows import RunStatus, current_step

EXPENSE = Expense(number=7, employee="Ada", cents=12_900)
AGREED = {"agreed": True, "by": "Grace"}
MAY = datetime(2024, 5, 8, 9, 30, tzinfo=UTC)


def test_it_is_paid_on_the_first_of_the_month_after_the_answer() -> None:
    with Simulation(fakes={mail_manager: None, pay: "transfer 1"}, start=MAY) as simulation:
        run = simulation.start(approve_expense, EXPENSE)
        simulation.advance(timedelta(days=10))
        assert run.steps == ["mail_manager", "mail_manager"]  # the question, and one reminder
        run.signal("answer", AGREED)
        assert (run.status, run.steps.count("pay")) == (RunStatus.waiting, 0)
        assert run.result() == "paid with transfer 1"
        assert simulation.now == datetime(2024, 6, 1, tzinfo=UTC)


def test_nobody_is_asked_for_ever() -> None:
    with Simulation(fakes={mail_manager: None}, start=MAY) as simulation:
        run = simulation.run(approve_expense, EXPENSE)
        assert run.result() == "nobody has answered"
        assert run.steps == ["mail_manager"] * 4
        assert simulation.now == MAY + timedelta(weeks=4)


def test_a_bank_that_does_not_answer_is_asked_again() -> None:
    bank = attempts(ConnectionError("no answer"), ConnectionError("no answer"), "transfer 1")
    with Simulation(fakes={mail_manager: None, pay: bank}, start=MAY) as simulation:
        run = simulation.start(approve_expense, EXPENSE)
        run.signal("answer", AGREED)
        assert run.result() == "paid with transfer 1"
        assert [each.number for each in run.attempts if each.step == "pay"] == [1, 2, 3]
        assert simulation.now == datetime(2024, 6, 1, 0, 3, tzinfo=UTC)  # after one minute, and two more


def test_no_crash_anywhere_pays_twice() -> None:
    transfers: Counter[str] = Counter()

    def bank(expense: Expense) -> str:
        transfers[current_step().idempotency_key] += 1  # a real bank does nothing for a key that it knows
        return "transfer 1"

    def story(simulation: Simulation) -> str:
        transfers.clear()
        run = simulation.start(approve_expense, EXPENSE)
        run.signal("answer", AGREED)
        paid = run.result()
        assert len(transfers) == 1, "the bank was asked under two keys"
        return paid

    places = crash_everywhere(story, fakes={mail_manager: None, pay: bank}, start=MAY)
    assert "after attempt 1 of step 'pay'" in places
