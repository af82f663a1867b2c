"""Metrics of states that were made for it, as a scraper reads them; and the facts that are collected for them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pyrula_runtime.wire import Blocked, Judged, Role
from pyrula_supervisor import metrics, status
from pyrula_supervisor.actions import BlockOver, Incident
from pyrula_supervisor.events import Exited, Said
from pyrula_supervisor.facts import MAX_INCIDENTS, SUPERVISOR, Facts, Observations
from pyrula_supervisor.model import Child, State
from pyrula_supervisor.tables import ChildState
from pyrula_supervisor.weights import Weight
from tests.supervisor.states import IDENTITY, NOW_MS, WALL_MS, clerk, queue, report, supervised, worker

COUNTS = {"suspects": 3, "quarantined": 4}


def surge(slot: int) -> Child:
    return worker(slot, incarnation=f"s{slot}", role=Role.surge)


def cell() -> Child:
    return worker(-1, incarnation="c", role=Role.cell)


def series(state: State, facts: Facts) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = metrics.text(status.document(state, facts, NOW_MS, WALL_MS), facts).decode()
    found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found, f"{key} is told twice"
            found[key] = sample.value
    return found


def test_metrics_of_children_and_totals() -> None:
    facts = Facts(
        identity=IDENTITY,
        weights={"w0": Weight(rss_bytes=30_000_000, cpu_percent=50.0), SUPERVISOR: Weight(rss_bytes=20_000_000)},
        turns_of_the_gone={(Role.worker, 0): 10, (Role.worker, 9): 5},
        incident_counts={("death", "killed"): 2},
    )
    by = Blocked(incarnation="w1", run_id="", workflow="", step="", for_s=2.0, line="", stack="")
    blocked = worker(1, state=ChildState.blocked, blocked=by, blocked_ms=NOW_MS)
    found = series(supervised([worker(0), blocked, clerk()]), facts)
    first = (("role", "worker"), ("slot", "0"))
    expected = {
        ("pyrula_children", (("state", "ready"),)): 1,
        ("pyrula_children", (("state", "blocked"),)): 1,
        ("pyrula_children", (("state", "backoff"),)): 0,
        ("pyrula_turns_running", ()): 4,
        ("pyrula_turns_done_total", ()): 7 + 7 + 10 + 5,
        ("pyrula_lane_lag_seconds", ()): 2.0,
        ("pyrula_child_turns_done_total", first): 17,
        ("pyrula_child_rss_bytes", first): 30_000_000,
        ("pyrula_child_cpu_ratio", first): 0.5,
        ("pyrula_child_lane_lag_seconds", first): 0.0015,
        ("pyrula_child_restarts_total", first): 0,
        ("pyrula_child_up", first): 1,
        ("pyrula_store_ok", ()): 1,
        ("pyrula_queue_runs", (("status", "queued"),)): 3,
        ("pyrula_supervisor_state", (("state", "running"),)): 1,
        ("pyrula_supervisor_state", (("state", "draining"),)): 0,
        ("pyrula_supervisor_rss_bytes", ()): 20_000_000,
        ("pyrula_incidents_total", (("kind", "death"), ("verdict", "killed"))): 2,
        ("pyrula_incidents_total", (("kind", "block"), ("verdict", ""))): 0,
        ("pyrula_ready", ()): 1,
    }
    assert {key: found.get(key) for key in expected} == pytest.approx(expected)
    assert ("pyrula_child_rss_bytes", (("role", "worker"), ("slot", "1"))) not in found


def test_metrics_of_those_who_share_a_slot_are_taken_together() -> None:
    old, new = worker(0, incarnation="old"), worker(0, incarnation="new", report=None, state=ChildState.starting)
    found = series(supervised([old, new]), Facts(identity=IDENTITY))
    assert found["pyrula_child_turns_running", (("role", "worker"), ("slot", "0"))] == 2


def test_metrics_know_what_is_not_known() -> None:
    found = series(supervised([clerk()], queue=None), Facts(identity=IDENTITY))
    assert ("pyrula_store_ok", ()) not in found
    assert not any(name == "pyrula_queue_runs" for name, _ in found)
    assert found["pyrula_children", (("state", "starting"),)] == 2


def test_names_in_labels_are_escaped() -> None:
    odd = Facts(identity=dataclasses.replace(IDENTITY, version='1"\\\n2'))
    assert any(dict(labels).get("version") == '1"\\\n2' for _, labels in series(supervised(), odd))


# the facts


def test_rates_come_to_rest_and_the_gone_are_counted() -> None:
    seen, state = Observations(IDENTITY), supervised()
    for second in range(20):
        seen.happened(Said(now_ms=second * 1000, incarnation="w0", message=report("w0", done=second * 5)), state)
    assert seen.facts(19_000).rates["w0"] == pytest.approx(5.0)
    assert 0 < seen.facts(25_000).rates["w0"] < 5
    assert seen.facts(40_000).rates["w0"] == 0
    seen.happened(Exited(now_ms=40_000, incarnation="w0", pid=5000, status=-9), state)
    seen.happened(Exited(now_ms=40_000, incarnation="clerk", pid=4999, status=-9), state)
    seen.happened(Exited(now_ms=40_000, incarnation="unknown", pid=1, status=0), state)
    facts = seen.facts(40_000)
    assert facts.rates == {}
    assert facts.turns_of_the_gone == {(Role.worker, 0): 95}
    assert (facts.clerk_restarts, facts.clerk_last_exit) == (1, "was killed by SIGKILL")


def test_stuck_lanes_and_blame_are_counted() -> None:
    seen = Observations(IDENTITY)
    state = supervised([worker(0, surged=True), surge(0), cell(), clerk()], queue=queue(counts=COUNTS))
    for for_ms in (2_400, 7_000, 400_000):
        seen.block_over(BlockOver(for_ms=for_ms))
    facts: dict[str, Any] = {"worker": "w9", "run_id": "r", "workflow": "order", "cause": "crashed", "charged": 2}
    judged = Judged(incarnation="clerk", **facts)
    seen.happened(Said(now_ms=NOW_MS, incarnation="clerk", message=judged), state)
    seen.noted(Incident(kind="block", text="", verdict="held_on_cpu"), WALL_MS)
    found = series(state, seen.facts(NOW_MS))
    expected = {
        ("pyrula_lane_block_seconds_bucket", (("le", "2.5"),)): 1,
        ("pyrula_lane_block_seconds_bucket", (("le", "300"),)): 2,
        ("pyrula_lane_block_seconds_bucket", (("le", "+Inf"),)): 3,
        ("pyrula_lane_block_seconds_sum", ()): 409.4,
        ("pyrula_lane_block_seconds_count", ()): 3,
        ("pyrula_charges_total", (("cause", "crashed"),)): 2,
        ("pyrula_charges_total", (("cause", "loop_blocked"),)): 0,
        ("pyrula_incidents_total", (("kind", "block"), ("verdict", "held_on_cpu"))): 1,
        ("pyrula_surge_children", ()): 1,
        ("pyrula_cells", ()): 1,
        ("pyrula_suspects", ()): 3,
        ("pyrula_quarantined_runs", ()): 4,
        # a surge counts in its slot, which may become its own
        ("pyrula_child_turns_done_total", (("role", "worker"), ("slot", "0"))): 14,
    }
    assert {key: found.get(key) for key in expected} == expected


def test_incidents_are_kept_newest_first_and_counted_for_ever() -> None:
    seen = Observations(IDENTITY)
    for number in range(MAX_INCIDENTS + 10):
        seen.noted(Incident(kind="death", text=f"the {number}th", slot=1), WALL_MS - 1_000)
    facts = seen.facts(NOW_MS)
    document = status.document(supervised(), facts, NOW_MS, WALL_MS)
    assert len(document["incidents"]) == MAX_INCIDENTS
    assert document["incidents"][0] == {
        "kind": "death",
        "text": "the 59th",
        "slot": 1,
        "run_id": "",
        "workflow": "",
        "step": "",
        "line": "",
        "verdict": "",
        "at_ms": WALL_MS - 1_000,
        "age_s": 1.0,
    }
    assert facts.incident_counts == {("death", ""): MAX_INCIDENTS + 10}


def test_pins_that_nobody_serves() -> None:
    found = series(supervised(queue=queue(pins={"order@2": 12})), Facts(identity=IDENTITY))
    assert found["pyrula_unserved_runs", (("version", "2"), ("workflow", "order"))] == 12
