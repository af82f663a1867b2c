"""The workflow: ask the manager, remind her every week, and pay on the first of the month after she has agreed.

A run takes weeks, and its worker none of them: while it waits, it stands in the store and nowhere else. How such a
workflow is tested in milliseconds is in test_app.py beside this.

    pyrula worker --workflow examples.approval.app
    pyrula submit approve_expense '{"number": 7, "employee": "Ada", "cents": 12900}'
    pyrula runs signal RUN answer '{"agreed": true, "by": "Grace"}'
"""

from __future__ import annotations

from datetime import datetime, timedelta

from pydantic import BaseModel

from pyrula.workflows import Retry, SignalTimeout, WorkflowContext, current_step, step, workflow

WEEK = timedelta(days=7)
REMINDERS = 3


class Expense(BaseModel):
    """What an employee has paid out of her own pocket."""

    number: int
    employee: str
    cents: int


class Answer(BaseModel):
    """What the manager says."""

    agreed: bool
    by: str


@workflow
async def approve_expense(ctx: WorkflowContext, expense: Expense) -> str:
    """Bring an expense to its payment, or to a reason why there is none."""
    await ctx.step(mail_manager, expense, "please have a look")
    for week in range(1, REMINDERS + 2):
        try:
            answer = await ctx.wait_signal("answer", type=Answer, timeout=WEEK)
            break
        except SignalTimeout:
            if week <= REMINDERS:
                await ctx.step(mail_manager, expense, f"it has waited for {week} weeks")
    else:
        return "nobody has answered"
    if not answer.agreed:
        return f"{answer.by} has refused"
    await ctx.sleep_until(first_of_next_month(ctx.now()))
    transfer = await ctx.step(pay, expense)
    return f"paid with {transfer}"


def first_of_next_month(moment: datetime) -> datetime:
    """Midnight of that day, in the zone of the moment."""
    first = moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return first.replace(year=moment.year + moment.month // 12, month=moment.month % 12 + 1)


@step(retry=3)
async def mail_manager(expense: Expense, text: str) -> None:
    """Write to whoever has to agree."""
    print(f"expense {expense.number} of {expense.employee}: {text}")


@step(retry=Retry(attempts=5, initial_s=60, max_s=3600))
def pay(expense: Expense) -> str:
    """Transfer the money. The key is the same in every attempt, so the bank transfers it once."""
    return f"transfer {current_step().idempotency_key}"
