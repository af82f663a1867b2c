"""What a supervisor says of itself, of states made for it: document and verdicts of the probes."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from pyrula_runtime.core.standstill import Verdict
from pyrula_runtime.wire import Blocked, Role
from pyrula_supervisor import status
from pyrula_supervisor.events import LaneSeen
from pyrula_supervisor.facts import Facts
from pyrula_supervisor.ladder import Rung
from pyrula_supervisor.model import Generation, Pace, Reload, Slot, State
from pyrula_supervisor.options import Policy
from pyrula_supervisor.pages import Pages
from pyrula_supervisor.tables import ChildState, Phase, ReloadPhase
from pyrula_supervisor.weights import Weight
from tests.supervisor.states import IDENTITY, NOW_MS, WALL_MS, clerk, queue, supervised, worker

SUPERVISOR_FIELDS = "name pid version state uptime_s generation start_method start_method_reason health_url"
CHILD_FIELDS = (
    "slot pid incarnation role state uptime_s restarts turns_running turns_done shards lane_lag_ms blocked rss_bytes "
    "uss_bytes cpu_percent last_exit"
)
BLOCKED_FIELDS = "run_id workflow step for_s gil_held stack"
STORE_FIELDS = "url ok since_s age_s"
QUEUE_FIELDS = "queued running waiting paused suspects quarantined age_s"


def told(state: State, facts: Facts | None = None) -> dict[str, Any]:
    made = status.document(state, facts or Facts(identity=IDENTITY), NOW_MS, WALL_MS)
    again: dict[str, Any] = json.loads(json.dumps(made))
    return again


# the document


def test_the_published_fields_are_there() -> None:
    blocked = worker(
        1,
        state=ChildState.blocked,
        blocked_ms=NOW_MS - 500,
        blocked=Blocked(incarnation="w1", run_id="r", workflow="w", step="s", for_s=3.0, line="app.py:1", stack="..."),
    )
    document = told(supervised([worker(0), blocked, clerk()], slots=(Slot(number=0), Slot(number=1), Slot(number=2))))
    assert list(document) == ["supervisor", "children", "templates", "store", "queue", "pins", "incidents"]
    assert set(SUPERVISOR_FIELDS.split()) <= document["supervisor"].keys()
    assert len(document["children"]) == 4
    for child in document["children"]:
        assert set(CHILD_FIELDS.split()) <= child.keys()
    assert set(BLOCKED_FIELDS.split()) <= document["children"][1]["blocked"].keys()
    assert set(STORE_FIELDS.split()) <= document["store"].keys()
    assert set(QUEUE_FIELDS.split()) == document["queue"].keys()


def test_a_well_supervisor() -> None:
    facts = Facts(
        identity=IDENTITY,
        weights={"w0": Weight(rss_bytes=30, cpu_percent=1.5, at_ms=NOW_MS, uss_bytes=9, uss_ms=NOW_MS - 4_000)},
        rates={"w0": 12.5},
    )
    document = told(supervised(), facts)
    supervisor, (first, second, last) = document["supervisor"], document["children"]
    assert (supervisor["state"], supervisor["uptime_s"], supervisor["ready"]) == ("running", 90.0, 2)
    assert (supervisor["start_method"], supervisor["start_method_reason"]) == ("spawn", "the app has 3 threads")
    assert supervisor["unready"] == supervisor["degraded"] == []
    assert [each["role"] for each in document["children"]] == ["worker", "worker", "clerk"]
    assert (first["state"], first["pid"], first["uptime_s"], first["turns_per_s"]) == ("ready", 5000, 60.0, 12.5)
    assert (first["rss_bytes"], first["uss_bytes"], first["uss_age_s"], first["cpu_percent"]) == (30, 9, 4.0, 1.5)
    assert (second["rss_bytes"], second["stale"], second["report_age_s"]) == (None, False, 0.5)
    assert (last["state"], last["stale"]) == ("ready", False)
    assert document["store"] == {
        "url": "sqlite:////srv/pyrula.db",
        "ok": True,
        "fault": "",
        "since_s": 80.0,
        "age_s": 1.0,
        "stale": False,
    }
    assert document["queue"] == {
        "queued": 3,
        "running": 2,
        "waiting": 0,
        "paused": 0,
        "suspects": 0,
        "quarantined": 0,
        "age_s": 1.0,
    }


def test_before_anybody_has_spoken_nothing_is_claimed() -> None:
    state = supervised([worker(0, state=ChildState.asked, pid=0, report=None)], queue=None, phase=Phase.starting)
    document = told(state)
    assert document["supervisor"]["state"] == "starting"
    assert [(each["pid"], each["state"]) for each in document["children"]] == [(None, "starting"), (None, "starting")]
    assert (document["store"]["ok"], document["store"]["age_s"]) == (None, None)
    assert document["store"]["url"] == "sqlite:///x"
    assert document["queue"]["queued"] is None


def test_a_blocked_child_says_by_what_and_gets_older() -> None:
    by = Blocked(
        incarnation="w0",
        run_id="r1",
        workflow="order",
        step="pay",
        for_s=2.0,
        line="app.py:7",
        stack="File ...",
        gil_held=True,
    )
    blocked = worker(0, state=ChildState.blocked, blocked=by, blocked_ms=NOW_MS - 3_000)
    (child, *_) = told(supervised([blocked, worker(1), clerk()]))["children"]
    assert child["state"] == "blocked"
    assert child["lane_lag_ms"] == 5000
    assert child["blocked"] == {
        "run_id": "r1",
        "workflow": "order",
        "step": "pay",
        "for_s": 5.0,
        "line": "app.py:7",
        "stack": "File ...",
        "gil_held": True,
        "op_id": "",
        "hint": "",
    }


def test_surges_cells_and_those_that_stand_still_are_shown() -> None:
    seen = LaneSeen(now_ms=NOW_MS, incarnation="w0", verdict=Verdict.stopped, stuck_ms=0)
    surge = worker(0, incarnation="s0", role=Role.surge)
    cell = worker(-1, incarnation="c", role=Role.cell)
    stuck = worker(1, rung=Rung.replaced, surged=True, state=ChildState.blocked)
    document = told(supervised([worker(0, seen=seen), surge, stuck, cell, clerk()], suspects=2))
    rows = [(child["role"], child["slot"], child["stands"]) for child in document["children"]]
    assert rows == [("worker", 0, "stopped"), ("worker", 1, ""), ("surge", 0, ""), ("cell", -1, ""), ("clerk", -1, "")]
    degraded = document["supervisor"]["degraded"]
    assert "worker 0 is stopped, by a signal or a debugger" in degraded
    assert not any("for a cell" in each for each in degraded)
    waits = told(supervised([worker(0), worker(1), clerk()], suspects=2))["supervisor"]["degraded"]
    assert waits == ["2 suspects wait for a cell"]


def test_a_silent_child_is_marked_with_the_age_of_its_report() -> None:
    state = supervised([worker(0, reported_ms=NOW_MS - 9_000), worker(1, report=None), clerk()])
    first, second, _ = told(state)["children"]
    assert (first["stale"], first["report_age_s"]) == (True, 9.0)
    assert (second["stale"], second["report_age_s"]) == (True, None)
    assert status.degraded(state, NOW_MS) == [
        "worker 0 has not been heard of for 9.0 s",
        "worker 1 has not been heard of for 59 s",
    ]
    assert status.unready(state, NOW_MS) == []


def test_the_supervisors_own_pause_makes_nobody_stale() -> None:
    state = supervised(paused_ms=60_000)
    assert status.degraded(state, NOW_MS + 60_000) == []
    assert status.document(state, Facts(identity=IDENTITY), NOW_MS + 60_000, WALL_MS)["children"][0]["uptime_s"] == 60.0


def test_a_slot_that_waits_for_its_next_try() -> None:
    slot = Slot(number=0, pace=Pace(failures=3, retry_ms=NOW_MS + 8_000), restarts=3, last_exit="exited with code 1")
    state = supervised([worker(1), clerk()], slots=(slot, Slot(number=1)))
    (child, *_) = told(state)["children"]
    assert (child["state"], child["pid"], child["restarts"], child["last_exit"]) == ("backoff", None, 3, slot.last_exit)
    assert child["retry_in_s"] == 8.0
    assert status.degraded(state, NOW_MS) == ["worker 0 is started again in 8.0 s: exited with code 1"]
    assert status.unready(state, NOW_MS) == []


def test_two_share_a_slot_while_one_replaces_the_other() -> None:
    old = worker(0, incarnation="old", outdated="a reload", generation=1)
    new = worker(0, incarnation="new", state=ChildState.starting, generation=2, asked_ms=NOW_MS - 100, report=None)
    children = told(supervised([new, old, worker(1), clerk()]))["children"]
    assert [(each["slot"], each["state"], each["generation"]) for each in children[:2]] == [
        (0, "ready", 1),
        (0, "starting", 2),
    ]
    assert children[0]["cause"] == "a reload"


def test_the_template_is_told_apart_from_the_children() -> None:
    template = worker(-1, incarnation="t", role=Role.template, report=None, note="OpenBLAS threads")
    state = supervised([template, worker(0), worker(1), clerk()])
    assert status.degraded(state, NOW_MS) == []
    document = told(state)
    assert [each["incarnation"] for each in document["templates"]] == ["t"]
    assert document["templates"][0]["note"] == "OpenBLAS threads"
    assert "template" not in {each["role"] for each in document["children"]}


def test_a_reload_and_a_drain_are_states() -> None:
    generation = Generation(number=1, forks=True)
    reload = Reload(phase=ReloadPhase.proving, old=generation, new=dataclasses.replace(generation, number=2), askers=())
    assert told(supervised(reload=reload))["supervisor"]["state"] == "reloading"
    for phase in (Phase.draining, Phase.killing, Phase.ended):
        assert told(supervised(phase=phase))["supervisor"]["state"] == "draining"


def test_killed_and_missing_ones_are_stopped_in_a_drain() -> None:
    state = supervised([worker(0, state=ChildState.killed)], phase=Phase.killing)
    assert [each["state"] for each in told(state)["children"]] == ["stopped", "stopped"]


# ready, degraded


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (supervised(phase=Phase.draining), "draining"),
        (supervised([clerk()]), "0 of 2 workers are ready, at least 1 must be"),
        (supervised(queue=None), "the clerk has not told of the store yet"),
        (supervised(queue=queue(store_ok=False, store_fault="disk full")), "the store does not serve: disk full"),
        (supervised(queue_ms=NOW_MS - 60_000), "the clerk has not told of the store for 60 s"),
    ],
)
def test_not_ready_has_its_reason(state: State, words: str) -> None:
    (reason,) = status.unready(state, NOW_MS)
    assert words in reason
    assert reason in status.degraded(state, NOW_MS)
    assert told(state)["supervisor"]["unready"] == [reason]


def test_fewer_workers_than_min_ready_are_not_ready() -> None:
    state = supervised([worker(0), clerk()], policy=Policy(procs=2, min_ready=2))
    assert status.unready(state, NOW_MS) == ["1 of 2 workers are ready, at least 2 must be"]


def test_no_clerk_is_degraded() -> None:
    assert "there is no clerk" in status.degraded(supervised([worker(0), worker(1)]), NOW_MS)[0]


# the pages


class Watched:
    def __init__(self, state: State, last_pass_ms: int) -> None:
        self.state = state
        self.last_pass_ms = last_pass_ms

    def facts(self, now_ms: int) -> Facts:
        return Facts(identity=IDENTITY)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    monkeypatch.setattr("time.monotonic_ns", lambda: NOW_MS * 1_000_000)
    return Watched(supervised(), NOW_MS)


def answer(watched: Watched, path: str) -> tuple[int, Any]:
    page = Pages(watched, pass_limit_ms=3_000)(path)
    assert page is not None
    return page.status, json.loads(page.body)


def test_live_and_ready(watched: Watched) -> None:
    assert answer(watched, "/livez") == (200, {"status": "ok", "reasons": []})
    assert answer(watched, "/readyz") == (200, {"status": "ok", "reasons": []})
    assert answer(watched, "/status")[1]["supervisor"]["name"] == "default"
    assert Pages(watched, pass_limit_ms=3_000)("/") is None


def test_a_pass_that_was_not_completed_is_neither_live_nor_ready(watched: Watched) -> None:
    watched.last_pass_ms = NOW_MS - 3_001
    code, said = answer(watched, "/livez")
    assert (code, said["status"]) == (503, "late")
    assert said["reasons"] == ["no supervision pass was completed for 3.0 s"]
    assert answer(watched, "/readyz")[0] == 503


@pytest.mark.parametrize(
    ("state", "word"),
    [
        (supervised(phase=Phase.draining), "draining"),
        (supervised([clerk()], phase=Phase.starting), "starting"),
        (supervised([clerk()]), "not_ready"),
        (supervised(queue=queue(store_ok=False)), "store_unavailable"),
    ],
)
def test_not_ready_is_503_and_still_live(watched: Watched, state: State, word: str) -> None:
    watched.state = state
    code, said = answer(watched, "/readyz")
    assert (code, said["status"]) == (503, word)
    assert said["reasons"]
    assert answer(watched, "/livez")[0] == 200


def test_pins_that_nobody_serves_are_told_but_keep_nobody_from_being_ready() -> None:
    state = supervised(queue=queue(pins={"order@2": 12, "ship 2:x@a@b": 1}))
    document = told(state)
    assert document["pins"] == [
        {"workflow": "order", "version": "2", "runs": 12},
        {"workflow": "ship 2:x", "version": "a@b", "runs": 1},
    ]
    assert document["supervisor"]["unready"] == []
    assert document["supervisor"]["degraded"] == [
        "12 runs are pinned to version '2' of 'order', which no live worker serves",
        "1 run is pinned to version 'a@b' of 'ship 2:x', which no live worker serves",
    ]
