"""Which pinned runs nobody serves."""

from __future__ import annotations

from pyrula_runtime.core.pins import told, unserved


def test_pins_of_no_live_worker_come_with_most_runs_first() -> None:
    pins = {("order", "1"): 3, ("order", "2"): 5, ("ship", "1"): 3, ("ship", "2"): 1}
    served = {("order", "2"), ("ship", None), ("ship", "2")}
    assert list(unserved(pins, served).items()) == [(("order", "1"), 3), (("ship", "1"), 3)]
    assert unserved(pins, served | {("order", "1"), ("ship", "1")}) == {}


def test_a_sentence_for_one_and_for_many() -> None:
    assert told(("order", "1"), 1) == "1 run is pinned to version '1' of 'order', which no live worker serves"
    assert told(("order", "1"), 1200).startswith("1,200 runs are pinned")
