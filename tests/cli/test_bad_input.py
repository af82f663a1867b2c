"""Whatever is wrong with a command line, an environment or an app: one clear sentence each, and the right exit code."""

from __future__ import annotations

import socket
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from pyrula_runtime.cli.commands import pyrula
from pyrula_supervisor.cli.group import supervisor
from tests.cli.sites import PATIENCE_S, PYRULA, Site

RATES = ("0", "-1", "nan", "inf", "1e30", "0.0001/h", "10001", "5/week", "")
SERVE = ("worker", "--workflow", "app:order")


def refusal(site: Site, code: int, *args: str, **environ: str) -> list[str]:
    """The lines of stderr of a command that must end with `code`, say so in sentences, and print nothing else."""
    done = site.pyrula(*args, environ=environ)
    lines = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert "Traceback" not in done.stderr
    assert lines
    assert all(line.startswith("pyrula: ") for line in lines)
    return lines


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("app:oder", "module 'app' has no 'oder'; did you mean order?"),
        ("ap:order", "there is no module 'ap'; did you mean app?"),
        ("app:nothing", "app:nothing is no workflow but of type int"),
        ("app:double", "app:double is no workflow"),
        ("json", "module 'json' registers no workflow"),
        ("app:", "'app:' names no workflow"),
        ("./app.py", "'./app.py' names no workflow"),
        ("app.py", "write the module's name instead of its file, such as app"),
    ],
)
def test_a_target_that_leads_nowhere_is_explained(site: Site, target: str, words: str) -> None:
    (line,) = refusal(site, 78, "worker", "--workflow", target)
    assert words in line


def test_workflows_and_modules_are_not_mixed(site: Site) -> None:
    (line,) = refusal(site, 78, *SERVE, "--workflow", "app")
    assert "not both at once" in line


def test_every_target_that_leads_nowhere_is_told(site: Site) -> None:
    assert len(refusal(site, 78, "worker", "--workflow", "app:oder", "--workflow", "app:heldd")) == 2


def test_an_app_that_raises_shows_its_own_traceback_once(site: Site) -> None:
    (site.folder / "inner.py").write_text("def connect():\n    raise RuntimeError('no database')\n")
    (site.folder / "bad.py").write_text("from inner import connect\nconnect()\n")
    done = site.pyrula("worker", "--workflow", "bad")
    assert done.returncode == 78
    assert done.stderr.count("Traceback (most recent call last)") == 1
    assert done.stderr.count("File ") == 2  # bad.py and inner.py: no frame of ours, none of importlib
    *_, error, sentence = done.stderr.splitlines()
    assert error == "RuntimeError: no database"
    assert sentence == "pyrula: cannot import 'bad': RuntimeError: no database"


@pytest.mark.parametrize("cron", ["61 2 * * *", "2 * *"])
def test_a_line_that_is_refused_is_shown_without_how_we_came_to_refuse_it(site: Site, cron: str) -> None:
    _shows_the_line(site, f"Schedule(cron={cron!r})", "61" if "61" in cron else "needs 5")


def test_nor_with_the_error_behind_the_refusal(site: Site) -> None:
    _shows_the_line(site, "Schedule(cron='@daily', timezone='Europe/Berln')", "no time zone 'Europe/Berln'")


def _shows_the_line(site: Site, made: str, words: str) -> None:
    (site.folder / "refused.py").write_text(f"from pyrula.workflows import Schedule\n{made}\n")
    done = site.pyrula("worker", "--workflow", "refused")
    assert done.returncode == 78
    assert done.stderr.count("Traceback") == 1
    assert done.stderr.count("File ") == 1
    assert 'refused.py", line 2' in done.stderr
    assert words in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("def f(:\n", "SyntaxError"),
        ("import no_such_library\n", "ModuleNotFoundError: No module named 'no_such_library'"),
        ("import sys\nsys.exit('no configuration')\n", "the app ended the process while it was imported: no config"),
        (
            "from pyrula.workflows import workflow\n@workflow\nasync def f(ctx, x: 'Nowhere'): ...\n",
            "parameter 'x' of workflow 'f' is annotated",
        ),
    ],
)
def test_an_app_that_cannot_be_imported_ends_in_a_sentence(site: Site, source: str, sentence: str) -> None:
    (site.folder / "bad.py").write_text(source)
    done = site.pyrula("worker", "--workflow", "bad")
    assert done.returncode == 78
    assert done.stderr.splitlines()[-1].startswith("pyrula: ")
    assert sentence in done.stderr.splitlines()[-1]
    assert "pyrula_runtime" not in done.stderr


def test_faults_of_flags_and_environment_are_told_together(site: Site) -> None:
    lines = refusal(
        site,
        78,
        *SERVE,
        "--lock-ttl",
        "-1",
        "--health-port",
        "99999",
        PYRULA_SHUTDOWN_GRACE="soon",
        PYRULA_SHARD_COUNT="0",
    )
    told = "\n".join(lines)
    assert len(lines) == 4
    for word in ("--lock-ttl", "--health-port", "PYRULA_SHUTDOWN_GRACE", "PYRULA_SHARD_COUNT"):
        assert word in told


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--max-concurrent-runs", "0"),
        ("--max-concurrent-runs", "1e9"),
        ("--max-concurrent-runs", ""),
        ("--lock-ttl", "nan"),
        ("--lock-ttl", "inf"),
        ("--cancel-timeout", "-5"),
        ("--block-warn", "99"),  # above replace_after
        ("--isolation", "process"),
        ("--health-port", "-1"),
        ("--worker-id", " "),
    ],
)
def test_absurd_options_are_refused(site: Site, flag: str, value: str) -> None:
    (line,) = refusal(site, 78, *SERVE, flag, value)
    assert flag in line


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgres://host/db", "scheme 'postgres' is unknown"),
        ("pyrula.db", "has no scheme"),
        ("sqlite:///", "names no file"),
        ("sqlite:////tmp/x.db?mode=ro", "parameters"),
    ],
)
@pytest.mark.parametrize("command", [SERVE, ("runs", "list"), ("store", "check")])
def test_a_store_url_that_is_none_is_refused(site: Site, command: tuple[str, ...], url: str, words: str) -> None:
    (line,) = refusal(site, 78, *command, "--store", url)
    assert words in line


def test_a_file_of_another_program_is_refused(site: Site) -> None:
    foreign = site.folder / "foreign.db"
    with sqlite3.connect(foreign) as db:
        db.execute("CREATE TABLE theirs (x)")
    db.close()
    before = foreign.read_bytes()
    (line,) = refusal(site, 78, "runs", "list", "--store", f"sqlite:///{foreign}")
    assert "another program" in line
    assert foreign.read_bytes() == before


def test_a_store_that_cannot_be_made_is_one_sentence(site: Site) -> None:
    (site.folder / "file").write_text("")
    (line,) = refusal(site, 1, *SERVE, "--store", f"sqlite:///{site.folder}/file/pyrula.db")
    assert "cannot be opened" in line


def test_a_port_in_use_is_one_sentence(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        store = site.folder / "none" / "pyrula.db"
        (line,) = refusal(site, 78, *SERVE, "--health-port", port, "--store", f"sqlite:///{store}")
    assert f"health port {port} on 127.0.0.1" in line
    assert not store.exists()  # found out before anything was touched


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("worker",), "say what to serve"),
        (("worker", "--agent", "app:support", "--llm-ref", "app:llm"), "serves no agents yet"),
        (("wroker",), "there is no command 'wroker' of pyrula; did you mean 'worker'?"),
        (("runs", "lst"), "there is no command 'lst' of pyrula runs; did you mean 'list'?"),
        (("frobnicate",), "pyrula --help lists them"),
        ((*SERVE, "--lock-tl", "3"), "--lock-ttl"),
        ((*SERVE, "--lock-ttl"), "requires an argument"),
        (("runs", "list", "--status", "done"), "'done'"),
        (("runs", "list", "--limit", "0"), "0"),
        (("runs", "list", "--limit", "1" + "0" * 30), "is not in the range"),
        (("runs", "list", "--limit", "9" * 5_000), "is not a valid whole number"),
        (("runs", "requeue"), "say which runs: their ids, or flags such as --status failed"),
        (("runs", "requeue", "r-1", "--status", "failed"), "give the ids of runs, or flags that say which runs; not"),
        (("runs", "requeue", "r-1", "--limit", "1"), "not both"),
        (("runs", "requeue", "--status", "running"), "'running' is not one of 'failed', 'paused', 'quarantined'"),
        (("runs", "requeue", "--cause", "blameless"), "'blameless' is not one of 'loop_blocked'"),
        (("runs", "requeue", "--workflow", ""), "workflow name '' must be"),
        (("runs", "requeue", "--older-than", "3 weeks"), "is no length of time; write it like 90s, 30min, 2h or 1d"),
        (("runs", "requeue", "--newer-than", "999999999d"), "is no length of time"),
        (("runs", "requeue", "--status", "failed", "--limit", "0"), "is not in the range"),
        *((("runs", "requeue", "r-1", "--rate", rate), "is no rate; write it like 5/s") for rate in RATES),
        (("runs", "show"), "Missing argument 'RUN'"),
        (("runs", "show", "nope"), "no run 'nope' in this store"),
        (("runs", "why", "nope"), "no run 'nope' in this store"),
        (("runs", "cancel"), "say which runs: their ids, or flags such as --status paused or --workflow NAME"),
        (
            ("runs", "pause", "r-1", "--status", "queued"),
            "give the ids of runs, or flags that say which runs; not both",
        ),
        (("runs", "resume", "--status", "queued"), "'queued' is not 'paused'"),
        (("submit",), "Missing argument 'NAME'"),
        (("submit", "order", "{x: 1}"), "the input is not JSON"),
        (("submit", "order", '{"x": 18446744073709551616}'), "whole numbers have 64 bits"),
        (("submit", "order", "[" * 1_000 + "]" * 1_000), "depth exceeded"),
        (("submit", "order", "@missing.json"), "cannot read the input from missing.json"),
        (("submit", "order", "--timeout", "3"), "give --wait with it"),
        (("submit", "order", "--wait", "--timeout", "nan"), "'nan' is no number"),
        (("submit", "order", "--wait", "--timeout", "inf"), "is not in the range"),
        (("submit", "order", "--run-id", "no good"), "run id 'no good' must be"),
        (("completion", "tcsh"), "'tcsh'"),
    ],
)
def test_a_wrong_call_is_one_sentence(site: Site, args: tuple[str, ...], words: str) -> None:
    (line,) = refusal(site, 2, *args)
    assert words in line


def test_an_input_over_the_limit_is_refused(site: Site) -> None:
    done = site.pyrula("submit", "order", "-", given=f'"{"x" * 1_000_001}"')
    assert done.returncode == 2
    assert "the limit is 1,000,000" in done.stderr.splitlines()[-1]


def test_unserved_settings_are_warned_about(site: Site) -> None:
    worker = site.serving(PYRULA_POSTGRES_DSN="postgres://secret@host/db", PYRULA_CLOUD_API_KEY="secret")
    warnings = [line for line in worker.lines if "WARNING" in line]
    assert any("PYRULA_POSTGRES_DSN is set, but this version does not serve it yet" in line for line in warnings)
    assert any("PYRULA_CLOUD_API_KEY is set" in line for line in warnings)
    assert not any("secret" in line for line in worker.lines)
    assert worker.stop() == 0


@pytest.mark.parametrize(
    ("workflow", "given", "words"),
    [
        ("order", '{"x": "many"}', "the input does not fit workflow 'order': parameter 'x'"),
        ("order", '{"y": 1}', "there is no parameter 'y'"),
        ("not_json", "{}", "InputError"),
        ("too_large", "{}", "1,000,000"),
    ],
)
def test_what_does_not_fit_fails_the_run_with_a_sentence(site: Site, workflow: str, given: str, words: str) -> None:
    worker = site.serving()
    done = site.pyrula("submit", workflow, given, "--wait")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert words in done.stderr.splitlines()[-1]
    assert worker.stop() == 0


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("args", [("runs", "list"), ("submit", "order", "{}"), ("runs", "list", "--json")])
def test_closed_streams_are_no_fault(site: Site, closed: str, args: tuple[str, ...]) -> None:
    command = f'exec "$@" {closed}'
    done = subprocess.run(
        ["sh", "-c", command, "sh", *PYRULA, *args], cwd=site.folder, env=site.environ, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0


@pytest.mark.parametrize("args", [("runs", "list"), ("runs", "list", "--json"), ("--help",)])
def test_an_output_that_is_full_is_one_sentence(site: Site, args: tuple[str, ...]) -> None:
    site.answer("submit", "order")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*PYRULA, *args],
            cwd=site.folder,
            env=site.environ,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "pyrula: the output could not be written: No space left on device\n"


def numbers(command: click.Command, path: str) -> Iterator[tuple[str, object]]:
    """Every parameter of a command and of those below it that is a number."""
    for parameter in command.params:
        if isinstance(parameter.type, click.types.IntParamType | click.types.FloatParamType):
            yield f"{path} {parameter.name}", parameter.type
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            below = command.get_command(click.Context(command), name)
            assert below is not None
            yield from numbers(below, f"{path} {name}")


def test_every_number_has_bounds() -> None:
    found = {**dict(numbers(pyrula, "pyrula")), **dict(numbers(supervisor, "pyrula-supervisor"))}
    assert {"pyrula runs list limit", "pyrula submit timeout", "pyrula-supervisor scale procs"} <= set(found)
    unbounded = [
        name
        for name, kind in found.items()
        if not isinstance(kind, click.IntRange | click.FloatRange) or kind.min is None or kind.max is None
    ]
    assert unbounded == []


@pytest.mark.parametrize(
    "command",
    [
        ("runs", "list", "--json"),
        ("runs", "show", "run-1"),
        ("runs", "why", "run-1"),
        ("runs", "signal", "run-1", "approve"),
        ("runs", "cancel", "run-1"),
        ("runs", "cancel", "--status", "queued"),
        ("schedules", "list"),
        ("schedules", "trigger", "report"),
        ("events",),
        ("store", "check"),
        ("store", "backup", "copy.db"),
    ],
)
def test_who_looks_for_something_in_a_store_makes_none(site: Site, command: tuple[str, ...]) -> None:
    path = site.folder / "typo" / "pyrula.db"
    (line,) = refusal(site, 2, *command, "--store", f"sqlite:///{path}")
    assert line.startswith(f"pyrula: there is no store at {path}")
    assert not path.parent.exists()


def test_a_word_in_the_place_of_a_number_is_told(site: Site) -> None:
    for command in (("runs", "list", "--limit", "many"), ("submit", "order", "--priority", "many")):
        (line,) = refusal(site, 2, *command)
        assert "'many' is not a valid whole number." in line
