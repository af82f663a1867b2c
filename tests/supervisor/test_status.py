"""What a supervisor says of itself, of states made for it: document, verdicts of the probes, metrics."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pyrula_runtime.wire import Blocked, Queue, Report, Role
from pyrula_supervisor import metrics, status
from pyrula_supervisor.actions import Incident
from pyrula_supervisor.events import Exited, Said
from pyrula_supervisor.facts import MAX_INCIDENTS, SUPERVISOR, Facts, Identity, Observations
from pyrula_supervisor.model import Child, Generation, Pace, Reload, Slot, State
from pyrula_supervisor.options import Policy
from pyrula_supervisor.pages import Pages
from pyrula_supervisor.tables import ChildState, Phase, ReloadPhase
from pyrula_supervisor.weights import Weight

NOW_MS = 1_000_000
WALL_MS = 1_700_000_000_000
IDENTITY = Identity(
    name="default", pid=4000, version="1.2.3", health_url="http://127.0.0.1:8081", store_url="sqlite:///x"
)

SUPERVISOR_FIELDS = "name pid version state uptime_s generation start_method start_method_reason health_url"
CHILD_FIELDS = (
    "slot pid incarnation role state uptime_s restarts turns_running turns_done lane_lag_ms blocked rss_bytes "
    "uss_bytes cpu_percent last_exit"
)
BLOCKED_FIELDS = "run_id workflow step for_s gil_held stack"
STORE_FIELDS = "url ok since_s age_s"
QUEUE_FIELDS = "queued running waiting paused suspects quarantined age_s"


def report(name: str, done: int = 7, **changes: Any) -> Report:
    given: dict[str, Any] = {
        "incarnation": name,
        "turns_running": 2,
        "turns_done": done,
        "capacity": 50,
        "lane_lag_ms": 1.5,
        "draining": False,
        "store_ok": True,
    }
    return Report(**given | changes)


def worker(slot: int, **changes: Any) -> Child:
    name = changes.pop("incarnation", f"w{slot}")
    given: dict[str, Any] = {
        "incarnation": name,
        "role": Role.worker,
        "slot": slot,
        "generation": 1,
        "state": ChildState.ready,
        "pid": 5000 + slot,
        "asked_ms": NOW_MS - 60_000,
        "ready_ms": NOW_MS - 59_000,
        "report": report(name),
        "reported_ms": NOW_MS - 500,
    }
    return Child(**given | changes)


def clerk(**changes: Any) -> Child:
    return worker(-1, incarnation="clerk", role=Role.clerk, pid=4999, report=None, **changes)


def queue(**changes: Any) -> Queue:
    given: dict[str, Any] = {
        "incarnation": "clerk",
        "store_ok": True,
        "store_url": "sqlite:////srv/pyrula.db",
        "counts": {"queued": 3, "running": 2, "completed": 100},
    }
    return Queue(**given | changes)


def supervised(children: Sequence[Child] = (), **changes: Any) -> State:
    """A supervisor of two well workers, but for the changes."""
    kept = children or (worker(0), worker(1), clerk())
    given: dict[str, Any] = {
        "policy": Policy(procs=2, min_ready=1),
        "started_ms": NOW_MS - 90_000,
        "generation": Generation(number=1, forks=False, reason="the app has 3 threads"),
        "procs": 2,
        "phase": Phase.running,
        "slots": (Slot(number=0), Slot(number=1)),
        "children": {each.incarnation: each for each in kept},
        "queue": queue(),
        "queue_ms": NOW_MS - 1_000,
        "store_ms": NOW_MS - 80_000,
    }
    return State(**given | changes)


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
    assert list(document) == ["supervisor", "children", "templates", "store", "queue", "incidents"]
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
    }


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
    document = told(supervised([template, worker(0), worker(1), clerk()]))
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


def test_scaled_below_min_ready_is_ready_with_all_that_are_wanted() -> None:
    state = supervised([worker(0), clerk()], policy=Policy(procs=2, min_ready=2), procs=1, slots=(Slot(number=0),))
    assert status.unready(state, NOW_MS) == []


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


# the metrics


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
        incident_counts={"death": 2},
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
        ("pyrula_incidents_total", (("kind", "death"),)): 2,
        ("pyrula_incidents_total", (("kind", "block"),)): 0,
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


def test_incidents_are_kept_newest_first_and_counted_for_ever() -> None:
    seen = Observations(IDENTITY)
    for number in range(MAX_INCIDENTS + 10):
        seen.noted(Incident(kind="death", text=f"the {number}th", slot=1), WALL_MS - 1_000)
    facts = seen.facts(NOW_MS)
    document = told(supervised(), facts)
    assert len(document["incidents"]) == MAX_INCIDENTS
    assert document["incidents"][0] == {
        "kind": "death",
        "text": "the 59th",
        "slot": 1,
        "run_id": "",
        "at_ms": WALL_MS - 1_000,
        "age_s": 1.0,
    }
    assert facts.incident_counts == {"death": MAX_INCIDENTS + 10}
