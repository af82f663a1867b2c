"""What begins runs by itself in a simulation: the schedules and events of the workflows that are at work there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pyrula.testing import Simulation, crash_everywhere
from pyrula.workflows import OnEvent, RunHandle, RunStatus, Schedule, WorkflowClient, WorkflowContext, step, workflow


@step
async def count_stock(day: str) -> str:
    return day


@workflow(schedule=Schedule(cron="0 3 * * *", timezone="Europe/Berlin"))
async def simulated_nightly(ctx: WorkflowContext, scheduled_at: datetime) -> str:
    return await ctx.step(count_stock, f"{scheduled_at:%Y-%m-%d %H:%M %z}")


@workflow(schedule=Schedule(every=timedelta(minutes=10), overlap="cancel_other"))
async def simulated_overlapping(ctx: WorkflowContext) -> None:
    await ctx.sleep(timedelta(minutes=25))


@workflow(on_event=["stock.low", OnEvent("stock.gone", filter=lambda payload: payload["item"] != "lamp")])
async def simulated_restock(ctx: WorkflowContext, item: str) -> str:
    return await ctx.step(count_stock, item)


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


def test_an_event_begins_runs_once() -> None:
    with Simulation(workflows=[simulated_restock]) as simulation:
        simulation.emit("stock.low", {"item": "lamp"})
        for item in ("lamp", "kettle", "kettle"):
            simulation.emit("stock.gone", {"item": item}, id=item)
        for name in ("stock.low", "stock.gone", "stock.low"):
            simulation.emit(name, {"item": "vase"}, id="vase")
        simulation.emit("stock.high", {"item": "scarf"})
        assert [run.result() for run in simulation.runs] == ["lamp", "kettle", "vase", "vase"]


def test_a_run_begins_as_late_as_was_asked_for() -> None:
    with Simulation() as simulation:
        run = simulation.start(simulated_restock, "lamp", delay=3600)
        assert (run.status, run.steps) == (RunStatus.waiting, [])
        assert run.result() == "lamp"
        assert run.ended == run.submitted + timedelta(hours=1)


def test_an_idempotency_key_gives_the_first_run_back() -> None:
    with Simulation() as simulation:
        runs = [simulation.start(simulated_restock, "lamp", idempotency_key="lamp") for _ in range(3)]
        assert len({run.run_id for run in runs}) == len(simulation.runs) == 1
        simulation.advance(timedelta(days=1))
        simulation.start(simulated_restock, "lamp", idempotency_key="lamp")
        assert len(simulation.runs) == 2


async def take_order(client: WorkflowClient, item: str) -> RunHandle[str]:
    return await client.submit(simulated_restock, item, delay=60)


def test_code_that_takes_a_client_gets_one() -> None:
    with Simulation() as simulation:
        handle = simulation.do(lambda client: take_order(client, "lamp"))
        simulation.advance(60)
        (run,) = simulation.runs
        assert (run.run_id, run.result()) == (handle.run_id, "lamp")


def test_a_run_can_be_operated() -> None:
    with Simulation(fakes={count_stock: ValueError}) as simulation:
        run = simulation.start(simulated_restock, "lamp", delay=60)
        run.pause()
        simulation.advance(3600)
        assert (run.status, run.steps) == (RunStatus.paused, [])
        run.resume()
        assert run.finish().status is RunStatus.failed
        simulation.fake(count_stock, "lamps")
        simulation.advance(3600)
        run.requeue()
        assert run.result() == "lamps"
        assert run.ended == simulation.now
