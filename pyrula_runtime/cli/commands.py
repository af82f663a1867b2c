"""The tree of commands by name, and the group that finds them, loads them late and guesses what a typo meant."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click


def meant(word: str, names: list[str]) -> str:
    """`; did you mean 'x'?`, if names are near."""
    near = get_close_matches(word, names, 2)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


class Group(click.Group):
    """A group whose commands are named here and defined elsewhere: name -> module of a package, attribute."""

    def __init__(
        self, *, late: Mapping[str, tuple[str, str]], package: str = "pyrula_runtime.cli", **attrs: Any
    ) -> None:
        super().__init__(**attrs)
        self._late = late
        self._package = package

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._late)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._late:
            return None
        module, attribute = self._late[cmd_name]
        command: click.Command = getattr(import_module(f"{self._package}.{module}"), attribute)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help())
            ctx.exit(2)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not ctx.resilient_parsing and name not in self._late:
            guess = meant(name, list(self._late)) or f"; {ctx.command_path} --help lists them"
            raise click.UsageError(f"there is no command {name!r} of {ctx.command_path}{guess}", ctx)
        return super().resolve_command(ctx, args)


def example(line: str) -> str:
    """The end of a command's help: one call that works."""
    return f"Example: {line}"


def _print_version(ctx: click.Context, _param: click.Parameter, wanted: Any) -> None:
    if wanted and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"pyrula {version('pyrula')}")
        ctx.exit()


def version_flag() -> click.Option:
    """`--version` of a program."""
    return click.Option(
        ["--version"],
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_print_version,
        help="Print the version.",
    )


pyrula = Group(
    name="pyrula",
    help="Durable Python workflows on your own machines.",
    epilog=example("pyrula worker --workflow app:process_order"),
    params=[version_flag()],
    late={
        "worker": ("worker", "worker"),
        "submit": ("submit", "submit"),
        "runs": ("commands", "runs"),
        "schedules": ("commands", "schedules"),
        "emit": ("events", "emit"),
        "events": ("events", "events"),
        "store": ("commands", "store"),
        "doctor": ("doctor", "doctor"),
        "completion": ("completion", "completion"),
    },
)

runs = Group(
    name="runs",
    help="Look at runs, and act on them.",
    epilog=example("pyrula runs list --status failed"),
    late={
        "list": ("runs", "list_runs"),
        "show": ("show", "show"),
        "why": ("why", "why"),
        "signal": ("signalling", "send"),
        "cancel": ("acts", "cancel"),
        "pause": ("acts", "pause"),
        "resume": ("acts", "resume"),
        "requeue": ("acts", "requeue"),
        "fork": ("acts", "fork"),
        "replay": ("replay", "replay"),
    },
)

schedules = Group(
    name="schedules",
    help="Look at schedules, and act on them.",
    epilog=example("pyrula schedules list"),
    late={
        "list": ("schedules", "list_schedules"),
        "next": ("schedules", "next_times"),
        "pause": ("schedules", "pause"),
        "resume": ("schedules", "resume"),
        "trigger": ("schedules", "trigger"),
        "backfill": ("schedules", "backfill"),
        "drop": ("schedules", "drop"),
    },
)

store = Group(
    name="store",
    help="Look after the store.",
    epilog=example("pyrula store backup /backups/pyrula.db"),
    late={"backup": ("store", "backup"), "check": ("store", "check")},
)
