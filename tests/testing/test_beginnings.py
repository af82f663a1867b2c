"""What begins runs by itself in a simulation: the schedules and events of the workflows that are at work there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pyrula.testing import Simulation, crash_everywhere
from pyrula.workflows import RunStatus, Schedule, WorkflowContext, step, workflow


@step
async def count_stock(day: str) -> str:
    return day


@workflow(schedule=Schedule(cron="0 3 * * *", timezone="Europe/Berlin"))
async def simulated_nightly(ctx: WorkflowContext, scheduled_at: datetime) -> str:
    return await ctx.step(count_stock, f"{scheduled_at:%Y-%m-%d %H:%M %z}")


@workflow(schedule=Schedule(every=timedelta(minutes=10), overlap="cancel_other"))
async def simulated_overlapping(ctx: WorkflowContext) -> None:
    await ctx.sleep(timedelta(minutes=25))


def test_a_schedule_fires_at_its_times() -> None:
    with Simulation(workflows=[simulated_nightly], start=datetime(2024, 3, 30, 12, tzinfo=UTC)) as simulation:
        assert simulation.runs == []
        simulation.advance(timedelta(days=3))
        assert [run.result() for run in simulation.runs] == [
            "2024-03-31 03:00 +0200",
            "2024-04-01 03:00 +0200",
            "2024-04-02 03:00 +0200",
        ]
        assert [each.args for each in simulation.attempts] == [(run.result(),) for run in simulation.runs]


def test_overlapping_runs_are_cancelled_as_the_schedule_says() -> None:
    with Simulation(workflows=[simulated_overlapping]) as simulation:
        simulation.advance(timedelta(minutes=35))
        assert [run.status for run in simulation.runs] == [RunStatus.cancelled] * 2 + [RunStatus.waiting]


def test_a_schedule_is_not_at_work_if_it_was_not_asked_for() -> None:
    with Simulation() as simulation:
        run = simulation.run(simulated_nightly, {"scheduled_at": "2024-01-01T03:00:00Z"})
        simulation.advance(timedelta(days=3))
        assert len(simulation.runs) == 1
        assert run.result() == "2024-01-01 03:00 +0000"


def test_schedules_survive_a_crash_anywhere() -> None:
    def story(simulation: Simulation) -> list[str]:
        simulation.advance(timedelta(days=2))
        return [run.result() for run in simulation.runs]

    places = crash_everywhere(story, workflows=[simulated_nightly])
    assert places.count("before attempt 1 of step 'count_stock'") == 2
