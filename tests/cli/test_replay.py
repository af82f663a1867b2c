"""`pyrula runs replay`: runs of a real store through the code of a later deploy, from the command line."""

from __future__ import annotations

from tests.cli.sites import APP, Site


def test_runs_are_replayed_through_the_code_of_a_later_deploy(site: Site) -> None:
    site.serving()
    run_ids = [f"order-{number}" for number in range(2)]
    for run_id in run_ids:
        site.pyrula("submit", "order", "{}", "--wait", "--run-id", run_id)
    before = site.document("runs", "show", run_ids[0])

    same = site.pyrula("runs", "replay", *run_ids, "--workflow", "app")
    assert (same.returncode, same.stderr) == (0, "")
    ends = "all of it was replayed, and the code ends as the run did: completed with 4"
    assert same.stdout.splitlines() == [f"{run_id} fits: {ends}" for run_id in run_ids]

    (site.folder / "app.py").write_text(APP.replace("def double(", "def twice(").replace("step(double", "step(twice"))
    changed = site.pyrula("runs", "replay", run_ids[0], "--workflow", "app:order")
    assert changed.returncode == 1
    assert changed.stdout == (
        f"{run_ids[0]} does not fit: journal entry 1 is step 'double' (double#1), but the code asks for step 'twice' "
        f"(twice#1); 'twice' is not on record: let ctx.patched(...) decide about what is new, and give what was only "
        f"renamed its old name, as in @step(name='double')\n"
    )
    assert changed.stderr == "pyrula: what does not fit is paused when a worker takes it, and loses nothing\n"
    assert site.document("runs", "show", run_ids[0]) == before

    wrong = site.pyrula("runs", "replay", run_ids[0], "--workflow", "app:broken")
    assert wrong.returncode == 2
    assert "is one of 'order', but the code given defines 'broken'" in wrong.stderr
    assert site.pyrula("runs", "replay", "nope", "--workflow", "app").returncode == 2
