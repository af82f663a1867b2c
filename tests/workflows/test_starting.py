"""Schedules and events as authors write them, and what is said of those that cannot be."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from pyrula.workflows import OnEvent, Schedule, UsageError, WorkflowContext, workflow
from pyrula_runtime.core.scheduling import Overlap
from pyrula_runtime.workflows.programs import program_of
from pyrula_runtime.workflows.starting import triggers


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Schedule(), "needs either cron= or every="),
        (lambda: Schedule(cron="@daily", every=5), "needs either cron= or every="),
        (lambda: Schedule(cron="61 * * * *"), "the minute '61'"),
        (lambda: Schedule(every=0.5), "every=0.5 must be seconds or a timedelta, from 1 s to a year"),
        (lambda: Schedule(every=timedelta(days=400)), "must be seconds or a timedelta"),
        (lambda: Schedule(every=True), "every=True must be"),
        (lambda: Schedule(every="1h"), "every='1h' must be"),  # type: ignore[arg-type]
        (lambda: Schedule(every=float("nan")), "every=nan must be"),
        (lambda: Schedule(every=5, catch_up=0), "catch_up=0 must be seconds or a timedelta, from 10 s"),
        (lambda: Schedule(every=5, jitter=-1), "jitter=-1 must be"),
        (lambda: Schedule(every=5, timezone="Berlin"), "there is no time zone 'Berlin'"),
        (lambda: Schedule(every=5, overlap="queue"), "overlap='queue' must be one of skip, buffer_one"),  # type: ignore[arg-type]
        (lambda: OnEvent("order created!"), "event name 'order created!' must be"),
        (lambda: OnEvent("x", filter=5), "the filter of event 'x' must be a plain function, not 5"),  # type: ignore[arg-type]
        (lambda: triggers(["a", OnEvent("a")]), "on_event= names a twice"),
        (lambda: triggers([5]), "on_event= takes the names of events, or OnEvent"),  # type: ignore[list-item]
        (lambda: workflow(schedule="@daily"), None),  # type: ignore[call-overload]
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(make: Callable[[], Any], said: str | None) -> None:
    async def starting_faulty(ctx: WorkflowContext) -> None: ...

    with pytest.raises(UsageError, match=None if said is None else said.replace("(", r"\(")):
        make()(starting_faulty)


async def _asks(_payload: Any) -> bool:
    return True


def test_a_filter_is_asked_without_a_loop() -> None:
    with pytest.raises(UsageError, match="must be a plain function"):
        OnEvent("x", filter=_asks)


def test_a_program_knows_what_starts_it() -> None:
    @workflow(
        version="4",
        schedule=Schedule(every=timedelta(minutes=5), overlap="allow", catch_up=600, jitter=timedelta(seconds=2)),
        on_event=["order.paid", OnEvent("order.created", filter=bool)],
    )
    async def starting_known(ctx: WorkflowContext, scheduled_at: datetime | None = None) -> None: ...

    program = program_of(starting_known)
    assert program.schedule is not None
    assert (program.schedule.workflow, program.schedule.version) == ("starting_known", "4")
    assert (program.schedule.every_ms, program.schedule.catch_up_ms, program.schedule.jitter_ms) == (
        300_000,
        600_000,
        2_000,
    )
    assert (program.schedule.overlap, program.schedule.takes_time) == (Overlap.allow, True)
    assert [(each.event, each.admits) for each in program.triggers] == [("order.paid", None), ("order.created", bool)]


def test_a_scheduled_workflow_must_be_content_with_the_time() -> None:
    @workflow(schedule=Schedule(cron="@daily"))
    async def starting_needy(ctx: WorkflowContext, customer: str) -> None: ...

    with pytest.raises(UsageError, match="'customer' is missing; a run that a schedule begins is given nothing but"):
        program_of(starting_needy)


def test_one_object_takes_what_a_schedule_gives() -> None:
    @workflow(schedule=Schedule(cron="@daily"))
    async def starting_whole(ctx: WorkflowContext, given: dict[str, Any]) -> None: ...

    program = program_of(starting_whole)
    assert program.schedule is not None
    assert not program.schedule.takes_time
