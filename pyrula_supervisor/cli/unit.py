"""`pyrula-supervisor unit`: the systemd unit that runs a supervisor with the flags given."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from pyrula_runtime.cli.commands import example
from pyrula_runtime.cli.endings import Faults
from pyrula_runtime.cli.flags import values_of
from pyrula_runtime.options import OPTIONS, WorkerOptions
from pyrula_runtime.settings import Settings
from pyrula_supervisor.cli.group import PLACES, refuse_unserved, serving_flags
from pyrula_supervisor.options import SUPERVISOR_OPTIONS, SupervisorOptions


class _Kept(click.Command):
    """A command that keeps its arguments as they were typed."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[__name__] = tuple(args)
        return super().parse_args(ctx, args)


@click.command(cls=_Kept, epilog=example("pyrula-supervisor unit --procs 4 --workflow app > pyrula.service"))
@serving_flags
def unit(
    *,
    targets: Sequence[str],
    agents: Sequence[str],
    llm_ref: str | None,
    log_format: str,
    log_level: str,
    **given: Any,
) -> None:
    """Print a systemd unit that runs a supervisor here.

    With the flags given, in the current directory, with this Python. The unit is hardened; say there what else the
    workflows need.
    """
    from pyrula_supervisor.unit import Daemon
    from pyrula_supervisor.unit import unit as text_of

    refuse_unserved(targets, agents, llm_ref)
    context = click.get_current_context()
    faults = Faults()
    with faults.kept():
        options = SupervisorOptions.from_env(os.environ, **_named(context, values_of(SUPERVISOR_OPTIONS, given)))
    with faults.kept():
        worker = WorkerOptions.from_env(os.environ, **values_of(OPTIONS, given))
    with faults.kept():
        Settings.from_env(os.environ, **values_of(PLACES, given))
    faults.refuse()
    args = context.meta[__name__]
    service = Daemon(
        name=options.name,
        python=sys.executable,
        directory=Path.cwd(),
        args=args if given["name"] or options.name == "default" else (*args, "--name", options.name),
        startup_s=options.startup_timeout,
        drain_s=worker.shutdown_grace + 3 * worker.cancel_timeout,
        code=(sys.prefix, sys.base_prefix, str(Path(__file__).resolve().parents[2])),
    )
    click.echo(text_of(service), nl=False)


def _named(context: click.Context, values: dict[str, Any]) -> dict[str, Any]:
    """A name before the command counts as well."""
    return values | {"name": values["name"] or context.obj}
