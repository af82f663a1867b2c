"""`pyrula-supervisor` itself: its flags, which are those of a worker and its own, and the table of its commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from pyrula_runtime.cli.commands import Group, example, version_flag
from pyrula_runtime.cli.flags import flag, flags
from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.options import OPTIONS, Option
from pyrula_runtime.settings import SETTINGS
from pyrula_supervisor.options import SUPERVISOR_OPTIONS

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

LEVELS = ("debug", "info", "warning", "error", "critical")
# the port is the supervisor's here: its children have none
PLACES: tuple[Option, ...] = tuple(each for each in SETTINGS if each.key not in ("health_port", "health_host"))
NAME = next(each for each in SUPERVISOR_OPTIONS if each.key == "name")


def serving_flags(command: Decorated) -> Decorated:
    """The flags of a command that says how to serve: of running, and of writing a unit that runs."""
    for decorate in reversed(
        (
            click.option(
                "--workflow",
                "targets",
                multiple=True,
                metavar="MODULE[:ATTR]",
                help="A workflow to serve, or a module, for all that it registers; may be given several times.",
            ),
            click.option(
                "--agent", "agents", multiple=True, metavar="MODULE:ATTR", help="Not served by this version yet."
            ),
            click.option("--llm-ref", metavar="MODULE:ATTR", help="Not served by this version yet."),
            flags(SUPERVISOR_OPTIONS),
            flags(PLACES),
            click.option("--log-format", type=click.Choice(["text", "json"]), default="text", help="[text]"),
            click.option("--log-level", type=click.Choice(LEVELS, case_sensitive=False), default="info", help="[info]"),
            flags(OPTIONS),
        )
    ):
        command = decorate(command)
    return command


def named(command: Decorated) -> Decorated:
    """The flag of a command that speaks to a supervisor."""
    return flag(NAME)(command)


def refuse_unserved(targets: Sequence[str], agents: Sequence[str], llm_ref: str | None) -> None:
    """Say what is missing, or what is not served yet."""
    if agents or llm_ref:
        raise UsageError("this version serves no agents yet: leave out --agent and --llm-ref, and give --workflow")
    if not targets:
        raise UsageError("say what to serve: --workflow module:attribute, or --workflow module for all of a module")


@serving_flags
def _run(**given: Any) -> int:
    """Become the supervisor, or leave it to the command that was named."""
    context = click.get_current_context()
    if context.invoked_subcommand is None:
        from pyrula_supervisor.cli.running import run

        return run(**given)
    context.obj = given["name"]
    for parameter in context.command.params:
        if (
            parameter.name != "name"
            and context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        ):
            raise UsageError(
                f"{parameter.opts[0]} is for starting a supervisor: leave it out before {context.invoked_subcommand}, "
                f"or write it behind"
            )
    return 0


supervisor = Group(
    name="pyrula-supervisor",
    package="pyrula_supervisor.cli",
    help="""Keep worker processes that serve workflows, and tell how they are.

    Without a command it becomes the supervisor: it starts the workers, answers probes and commands, and drains on
    SIGTERM or SIGINT; a second signal ends everything at once. SIGHUP reloads the code.
    """,
    epilog=example("pyrula-supervisor --procs 4 --workflow app:process_order"),
    invoke_without_command=True,
    subcommand_metavar="[COMMAND] [ARGS]...",
    callback=_run,
    params=[*reversed(getattr(_run, "__click_params__", [])), version_flag()],
    late={
        "status": ("status", "status"),
        "stop": ("asks", "stop"),
        "reload": ("asks", "reload"),
        "scale": ("asks", "scale"),
        "restart": ("asks", "restart"),
        "dump": ("asks", "dump"),
        "unit": ("unit", "unit"),
    },
)
