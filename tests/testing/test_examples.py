"""The example workflows in a simulation: every order has the fate that it has with real workers, through any crash."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from examples.blame.app import quick
from examples.orders import outside
from examples.orders.app import Order, process_order
from examples.orders.samples import expected_effects, expected_status, orders
from pyrula.testing import Simulation, crash_everywhere


class Outside:
    """A world without latency, where a key has its effect once."""

    def __init__(self) -> None:
        self.effects: dict[str, str] = {}

    def do(self, what: str, order_id: str, key: str) -> None:
        self.effects[key] = f"{order_id} {what}"

    def on(self, order: Order) -> Counter[str]:
        """What happened to an order, and how often."""
        done = (effect.split() for effect in self.effects.values())
        return Counter(what for order_id, what in done if order_id == order.order_id)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Outside:
    world = Outside()
    monkeypatch.setattr(outside, "do", world.do)
    monkeypatch.setattr(outside, "latency_s", lambda order_id, what: 0.0)
    return world


def test_orders_have_their_fates(world: Outside) -> None:
    placed = orders("simulated", 25)
    with Simulation() as simulation:
        runs = [simulation.start(process_order, order) for order in placed]
        assert [run.result().status for run in runs] == [expected_status(order) for order in placed]
    assert [world.on(order) for order in placed] == [expected_effects(order) for order in placed]


@pytest.mark.parametrize("order", [orders("crashing", 10)[number] for number in (2, 9)], ids=expected_status)
def test_an_order_survives_a_crash_anywhere(order: Order, world: Outside) -> None:
    def story(simulation: Simulation) -> str:
        world.effects.clear()
        status = simulation.run(process_order, order).result().status
        assert world.on(order) == expected_effects(order)
        return status

    places = crash_everywhere(story)
    assert "after attempt 1 of step 'notify'" in places


def test_an_innocent_run_is_quick() -> None:
    with Simulation() as simulation:
        run = simulation.run(quick, {"number": 3})
        assert run.result() == 9
        assert run.ended is not None
        assert run.ended - run.submitted == timedelta(milliseconds=40)
