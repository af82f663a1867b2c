"""Log lines with the run and step they belong to, and silence during replay."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyrula.workflows import RunFields, WorkflowContext, workflow
from pyrula_runtime.engine.current import Current, current
from pyrula_runtime.workflows.logs import BodyLog, configure_logging
from tests.workflows.serving import LIMIT_S, served

STEP = Current(run_id="R1", workflow="order", op_id="charge#1", step="charge", attempt=2)


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, put back as it was."""
    logger = logging.getLogger()
    before, level = list(logger.handlers), logger.level
    for handler in before:  # configuring closes what it finds, and these are the test runner's
        logger.removeHandler(handler)
    yield logger
    logger.handlers[:] = before
    logger.setLevel(level)


def in_step(act: str, *args: object, **options: object) -> None:
    token = current.set(STEP)
    try:
        getattr(logging.getLogger("app"), act)(*args, **options)
    finally:
        current.reset(token)


def test_every_line_of_text_names_run_and_step(root: logging.Logger) -> None:
    lines = io.StringIO()
    configure_logging("text", "INFO", lines)
    in_step("info", "charged %d\nand thanked", 3)
    told = lines.getvalue().splitlines()
    assert len(told) == 2
    assert all(" INFO    app [order R1 charge#2] " in line for line in told)
    assert told[0].endswith("] charged 3")
    assert told[1].endswith("] and thanked")


def test_a_traceback_is_part_of_the_record(root: logging.Logger) -> None:
    lines = io.StringIO()
    configure_logging("text", logging.INFO, lines)
    try:
        raise ValueError("no")
    except ValueError:
        in_step("exception", "failed")
    told = lines.getvalue().splitlines()
    assert all("[order R1 charge#2]" in line for line in told)
    assert told[-1].endswith("ValueError: no")


def test_outside_of_runs_there_is_nothing_to_name(root: logging.Logger) -> None:
    lines = io.StringIO()
    configure_logging("text", logging.INFO, lines)
    logging.getLogger("app").debug("unheard")
    logging.getLogger("app").info("")
    logging.getLogger("app").info("started")
    assert [line.partition(" app ")[2] for line in lines.getvalue().splitlines()] == ["", "started"]


def test_json_has_one_object_for_each_record(root: logging.Logger) -> None:
    lines = io.StringIO()
    configure_logging("json", logging.INFO, lines)
    in_step("warning", "charged \ud800\n%s", "twice")
    logging.getLogger("app").info("started")
    try:
        raise ValueError("no")
    except ValueError:
        logging.getLogger("app").exception("failed")
    first, second, third = map(json.loads, lines.getvalue().splitlines())
    fields = {"run_id": "R1", "workflow": "order", "step": "charge", "attempt": 2}
    assert first.pop("time").endswith("+00:00")
    assert first == {"level": "warning", "logger": "app", "message": "charged \ud800\ntwice"} | fields
    assert not fields.keys() & second.keys()
    assert third["exception"].endswith("ValueError: no")


def test_records_go_to_standard_error(root: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging()
    logging.getLogger("app").info("started")
    assert "started" in capsys.readouterr().err
    assert root.handlers[0].stream is sys.stderr  # type: ignore[attr-defined]


def test_fields_that_a_record_has_stay() -> None:
    record = logging.makeLogRecord({"msg": "m", "run_id": "other"})
    assert RunFields().filter(record)
    assert (record.run_id, record.workflow, record.attempt) == ("other", "", 0)  # type: ignore[attr-defined]


def test_a_bodys_log_is_silent_during_replay(caplog: pytest.LogCaptureFixture) -> None:
    is_replaying = True
    log = BodyLog("order", lambda: is_replaying)
    with caplog.at_level(logging.INFO):
        log.info("said before")
        is_replaying = False
        log.info("new")
    assert [record.getMessage() for record in caplog.records] == ["new"]


@workflow
async def talks(ctx: WorkflowContext) -> None:
    ctx.log.warning("in the body")
    await ctx.step(tell)


def tell() -> None:
    logging.getLogger("app").warning("in the step")


async def test_user_code_logs_with_its_run(tmp_path: Path, root: logging.Logger) -> None:
    lines = io.StringIO()
    configure_logging("json", logging.WARNING, lines)
    async with served(tmp_path, talks) as client:
        run = await client.submit(talks)
        await run.result(LIMIT_S)
    body, in_a_step = (line for line in map(json.loads, lines.getvalue().splitlines()) if "in the" in line["message"])
    assert (body["run_id"], body["workflow"], "step" in body) == (run.run_id, "talks", False)
    assert (in_a_step["run_id"], in_a_step["step"], in_a_step["attempt"]) == (run.run_id, "tell", 1)
