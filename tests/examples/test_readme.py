"""README tells the truth: its generated parts are current, its code runs as printed, its paths and commands exist."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest

from benchmarks.figures import Case, Measurement, Metric
from pyrula_runtime.cli.commands import pyrula
from pyrula_runtime.options import OPTIONS, WorkerOptions
from pyrula_runtime.settings import SETTINGS
from pyrula_supervisor import stopping
from pyrula_supervisor.cli.group import supervisor
from pyrula_supervisor.options import SUPERVISOR_OPTIONS
from tests.examples.readme import LATER, README, ROOT, UNIT, measured, renewed, service

TEXT = README.read_text()
BLOCKS: dict[str, str] = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", TEXT, re.DOTALL))
SCRIPTS = Path(sys.executable).parent
COMMAND = str(SCRIPTS / "pyrula")
_LIMIT_S = 60


def ran(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYRULA_", "XDG_"))}
    environ["XDG_STATE_HOME"] = str(folder / "state")
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=_LIMIT_S)


@contextmanager
def serving(folder: Path, command: str, ready: str = "serves") -> Iterator[None]:
    """This command at work in the folder from the line with `ready` on, drained at the end."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYRULA_", "XDG_"))}
    environ |= {"XDG_STATE_HOME": str(folder / "state"), "PYRULA_WORKER_HEALTH_PORT": "0"}
    name, *args = command.split()
    words = [str(SCRIPTS / name), *args]
    with subprocess.Popen(words, cwd=folder, env=environ, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = next((line for line in process.stderr if ready in line or "pyrula:" in line), "")
            assert ready in line
            yield
        finally:
            process.terminate()
            process.communicate(timeout=_LIMIT_S)
    assert process.returncode == 0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, code in BLOCKS.items():
        (tmp_path / name).write_text(code)
    return tmp_path


def test_generated_parts_are_current() -> None:
    assert renewed(TEXT) == TEXT, "write them anew: python -m tests.examples.readme"


def test_figures_older_than_their_measurement_are_told_as_far_as_they_go() -> None:
    metrics = (Metric(key="new", title="new"), Metric(key="old", title="old", unit="s"))
    cases = tuple(Case(system=system, run=lambda bench: {}) for system in ("A", "unmeasured"))
    asked = Measurement(name="m", title="M", about="About.", metrics=metrics, cases=cases)
    machine = dict.fromkeys(("cores", "system", "python", "sqlite", "fsync_p50_ms", "load_average"), "?")
    series = {"count": 1, "median": 2.0, "least": 2.0, "greatest": 2.0}
    old = {"title": "old", "unit": "s", "systems": {"A": series, "dropped": series}}
    assert measured(asked, {"machine": machine, "figures": {"old": old}}).endswith(
        "|  | A |\n| --- | --- |\n| old, s | 2 |"
    )
    assert measured(asked, {"machine": machine, "figures": {}}) == ""


def test_the_unit_is_current() -> None:
    assert UNIT.read_text() == service(), "write it anew: python -m tests.examples.readme"


def test_every_python_block_is_a_file_that_is_tried_here() -> None:
    assert TEXT.count("```python") == len(BLOCKS)
    assert BLOCKS.keys() == {
        "app.py",
        "submit.py",
        "submit_by_name.py",
        "trip.py",
        "isolated.py",
        "holiday.py",
        "nightly.py",
        "test_trip.py",
        "parcels.py",
        "follow.py",
    }


def test_the_first_workflow_runs_as_printed(folder: Path) -> None:
    (line,) = re.findall(r"^pyrula submit process_order '(.*)' --wait$", TEXT, re.MULTILINE)
    (command,) = re.findall(r"^pyrula-supervisor --procs .*$", TEXT, re.MULTILINE)
    with serving(folder, command, "ready: "):
        by_hand = ran(folder, COMMAND, "submit", "process_order", line, "--wait")
        by_function = ran(folder, sys.executable, "submit.py")
        by_name = ran(folder, sys.executable, "submit_by_name.py")
    assert f"It prints `{by_hand.stdout.strip()}`" in TEXT
    assert by_function.stdout == "Grace gets 2 lamp\n"
    assert by_name.stdout.endswith(" Ken gets 1 scarf completed\n")
    assert by_name.stderr == ""


def test_the_trip_is_undone(folder: Path) -> None:
    with serving(folder, "pyrula worker --workflow trip"):
        booked = ran(folder, COMMAND, "submit", "book_trip", '{"traveller": "Ada"}', "--wait")
        run_id = booked.stderr.split()[1]
        shown = ran(folder, COMMAND, "runs", "show", run_id)
    assert booked.returncode == 1
    assert "ConnectionError: the hotel does not answer" in booked.stderr
    assert re.search(r"cancel_flight#1 +null", shown.stdout)


def test_a_parcel_shows_where_it_is_and_code_that_changed_is_tried_first(folder: Path) -> None:
    with serving(folder, "pyrula worker --workflow parcels"):
        sent = ran(folder, COMMAND, "submit", "send_parcel", '{"order": "a lamp"}', "--wait", "--run-id", "parcel")
    assert sent.stdout == '"parcel of a lamp is on its way"\n'
    followed = ran(folder, sys.executable, "follow.py", "parcel")
    assert followed.stdout.splitlines() == [
        "1 status {'stage': 'packing', 'order': 'a lamp'}",
        "2 status {'stage': 'handing over', 'order': 'a lamp'}",
    ]
    shown = ran(folder, COMMAND, "runs", "show", "parcel")
    assert re.search(r'shows +{"stage":"handing over","order":"a lamp"}', shown.stdout)
    replayed = ran(folder, COMMAND, "runs", "replay", "parcel", "--workflow", "parcels")
    assert "parcel fits: all of it was replayed, and the code ends as the run did" in replayed.stdout
    (folder / "parcels.py").write_text(
        BLOCKS["parcels.py"].replace("def insure", "def cover").replace("(insure", "(cover")
    )
    changed = ran(folder, COMMAND, "runs", "replay", "parcel", "--workflow", "parcels")
    assert changed.returncode == 1
    assert "but the code asks for step 'cover' (cover#1)" in changed.stdout


def test_the_tests_of_the_trip_pass(folder: Path) -> None:
    told = ran(folder, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_trip.py")
    assert "\n3 passed in" in told.stdout, told.stdout


def test_the_interview_is_held_on_a_loop_of_its_own(folder: Path) -> None:
    with serving(folder, "pyrula worker --workflow isolated"):
        for _ in range(2):
            held = ran(folder, COMMAND, "submit", "interview", '{"questions": ["a", "b", "c"]}', "--wait")
            assert held.stdout.split('"')[1::2] == ["about a: yes", "about b: yes", "about c: yes"], held.stderr


def test_the_holiday_is_granted_and_ends_early(folder: Path) -> None:
    (payload,) = re.findall(r"signal RUN decision '(.*?)'", TEXT)
    given = '{"name": "Ann", "days": 600}'
    with serving(folder, "pyrula worker --workflow holiday"):
        run_id = ran(folder, COMMAND, "submit", "holiday", given).stdout.strip()
        ran(folder, COMMAND, "runs", "signal", run_id, "decision", payload)
        ran(folder, COMMAND, "runs", "signal", run_id, "called back")
        ended = ran(folder, COMMAND, "submit", "holiday", given, "--run-id", run_id, "--wait")
    assert ended.stdout == '["Ann: back early, and the stand-in cancelled"]\n'


def test_the_report_and_the_thanks_are_begun(folder: Path) -> None:
    with serving(folder, "pyrula worker --workflow nightly"):
        while "nightly_report" not in ran(folder, COMMAND, "schedules", "list").stdout:
            pass
        ran(folder, COMMAND, "schedules", "trigger", "nightly_report")
        for total in (99, 120):
            ran(folder, COMMAND, "emit", "order.created", f'{{"total": {total}}}')
        while len(listed := json.loads(ran(folder, COMMAND, "runs", "list", "--json").stdout)) < 2:
            pass
        assert {run["workflow"] for run in listed} == {"nightly_report", "thank"}


def test_paths_exist() -> None:
    links = {link for link in re.findall(r"\]\(([^)#][^)]*)\)", TEXT) if "://" not in link}
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_links_within_lead_somewhere() -> None:
    titles = re.findall(r"^#+ (.*)$", TEXT, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}
    assert set(re.findall(r"\]\(#([^)]*)\)", TEXT)) <= anchors


def test_commands_exist() -> None:
    lines = re.findall(r"^(?:\S.*[ /])?(pyrula|pyrula-supervisor) ((?:--)?[a-z].*)$", TEXT, re.MULTILINE)
    lines += re.findall(r"`(pyrula|pyrula-supervisor)\s((?:--)?[a-z][^`]*)`", TEXT)
    assert len(lines) > 20
    for group, line in lines:
        words = re.split(r"[#|]", line)[0].split()
        command: click.Command | None = pyrula if group == "pyrula" else supervisor
        while isinstance(command, click.Group) and words and not words[0].startswith("--"):
            command = command.get_command(click.Context(command), words.pop(0).rstrip(","))
        assert command is not None, line
        flags = {flag for parameter in command.params for flag in parameter.opts}
        assert {word.partition("=")[0] for word in words if word.startswith("--")} <= flags, line


def test_what_does_nothing_yet_is_marked() -> None:
    names = {each.name for each in (*OPTIONS, *SUPERVISOR_OPTIONS, *SETTINGS)}
    assert names >= LATER
    folders = ROOT / "pyrula_runtime", ROOT / "pyrula_supervisor"
    paths = [path for folder in folders for path in folder.rglob("*.py")]
    sources = [path.read_text() for path in paths if path != ROOT / "pyrula_runtime" / "options.py"]
    fields = {each.name: each.field for each in OPTIONS if not each.name.startswith("poison.")}
    assert set(fields.values()) <= set(WorkerOptions.__dataclass_fields__)
    unused = {
        name
        for name, field in fields.items()
        if not any(re.search(rf"(?:options|worker)\.{field}(?:_s)?\b", source) for source in sources)
    }
    assert unused == {name for name in LATER if name in fields}
    own = [path.read_text() for path in (ROOT / "pyrula_supervisor").rglob("*.py")]
    assert all(any(f"options.{each.field}" in source for source in own) for each in SUPERVISOR_OPTIONS)


def test_recipes_give_a_drain_its_time() -> None:
    options = WorkerOptions()
    end_s = options.shutdown_grace + 3 * options.cancel_timeout + stopping.LAST_MS / 1000
    told = {
        "docker-compose.single-host.yml": r"stop_grace_period: (\d+)s",
        "kubernetes/worker.yaml": r"terminationGracePeriodSeconds: (\d+)",
        "pyrula.service": r"TimeoutStopSec=(\d+)",
    }
    for name, pattern in told.items():
        (seconds,) = re.findall(pattern, (ROOT / "examples" / "deploy" / name).read_text())
        assert int(seconds) >= end_s + 10, name


def test_the_lambda_handler_starts_a_run_once(tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYRULA_")}
    told = subprocess.run(
        [sys.executable, ROOT / "examples" / "lambda_handler.py"],
        env=environ | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
    )
    assert told.returncode == 0, told.stderr
    assert told.stdout.endswith(", once\n")


def test_the_deployed_workflow_runs(tmp_path: Path) -> None:
    source = ROOT / "examples" / "deploy" / "workflow-worker" / "app.py"
    (tmp_path / "app.py").write_text(source.read_text())
    with serving(tmp_path, "pyrula worker --workflow app:process_document"):
        told = ran(tmp_path, COMMAND, "submit", "process_document", '{"document_id": "doc_9"}', "--wait")
    assert told.stdout == "4\n"
