"""A deploy that does not fit a run: it is paused with what a person needs, and goes on when the code is mended."""

from __future__ import annotations

import asyncio

from pyrula.workflows import RunStatus, WorkflowClient, open_store
from tests.cli.sites import APP, Site
from tests.workflows.serving import has_come_to

ONE_BODY = "    return await ctx.step(double, await ctx.step(double, x))"
SLOW = APP.replace(
    ONE_BODY,
    "    first = await ctx.step(double, x)\n    await ctx.wait_signal('go')\n    return await ctx.step(double, first)",
)
RENAMED = SLOW.replace("def double(", "def twice(").replace("step(double", "step(twice")
FITTING = RENAMED.replace("@step\ndef twice(", "@step(name='double')\ndef twice(")


def until(site: Site, status: RunStatus, *, signal: bool = False) -> None:
    """Return when the run stands so."""

    async def work() -> None:
        async with WorkflowClient(open_store(site.store)) as client:
            run = client.handle("order", "slow")
            if signal:
                await run.signal("go")
            await has_come_to(run, status)

    asyncio.run(work())


def test_a_run_that_does_not_fit_is_paused_with_a_diff_and_a_fixed_deploy_takes_it_on(site: Site) -> None:
    app = site.folder / "app.py"
    app.write_text(SLOW)
    worker = site.serving()
    site.answer("submit", "order", "{}", "--run-id", "slow")
    until(site, RunStatus.waiting)
    assert worker.stop() == 0

    app.write_text(RENAMED)
    worker = site.serving()
    until(site, RunStatus.paused, signal=True)
    shown = site.answer("runs", "show", "slow").splitlines()
    at = shown.index(
        "JournalMismatch: journal entry 1 is step 'double' (double#1), but the code asks for step 'twice' (twice#1)"
    )
    assert shown[at + 1 : at + 5] == [
        "entry   1",
        "journal has step 'double' (double#1)",
        "code    asks for step 'twice' (twice#1)",
        "fitted  nothing before it",
    ]
    assert "give what was only renamed its old name, as in @step(name='double')" in site.answer("runs", "why", "slow")
    assert worker.stop() == 0

    app.write_text(FITTING)
    assert "slow fits: all of it was replayed" in site.answer("runs", "replay", "slow", "--workflow", "app")
    site.serving()
    site.answer("runs", "requeue", "slow")
    until(site, RunStatus.completed)


def test_a_run_is_paused_resumed_and_forked_by_hand(site: Site) -> None:
    site.answer("submit", "order", "{}", "--run-id", "slow")
    assert site.answer("runs", "pause", "slow") == "slow: paused"
    assert "was paused by an operator. To go on: pyrula runs resume slow" in site.answer("runs", "why", "slow")
    assert site.answer("runs", "resume", "--status", "paused") == "slow: goes on"
    site.serving()
    until(site, RunStatus.completed)
    told, fork = site.answer("runs", "fork", "slow", "--from", "double#2").split(": forked as ")
    assert told == "slow"
    assert site.pyrula("submit", "order", "{}", "--wait").returncode == 0  # the fork stood before it
    document = site.document("runs", "show", fork)
    assert [entry["kind"] for entry in document["journal"]] == ["completed", "forked", "completed"]
    assert "forked from run slow, which recorded what stands above it" in site.answer("runs", "show", fork)
    refused = site.pyrula("runs", "fork", "slow", "--from", "double")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "has several operations called 'double': double#1, double#2; say which" in refused.stderr
