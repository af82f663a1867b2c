"""From `--name` and environment to the supervisor that is meant, and from its answer to exit code and lines."""

from __future__ import annotations

import os

import click

from pyrula_runtime.cli.endings import FAILED, say
from pyrula_supervisor.asking import Door
from pyrula_supervisor.naming import directory_of
from pyrula_supervisor.options import SupervisorOptions
from pyrula_supervisor.requests import Request


def door(name: str | None) -> Door:
    """The way to the supervisor of this name; unset, of that before the command, else of that in the environment."""
    options = SupervisorOptions.from_env(os.environ, name=name or click.get_current_context().obj)
    return Door(directory=directory_of(os.environ, options.name), name=options.name)


def act(to: Door, request: Request, *, tells: bool = True) -> int:
    """Ask for something to be done: the exit code, after telling what became of it; on the way how far it is."""
    reply = to.ask(request, Progress() if tells else None)
    if reply.ok:
        click.echo(reply.text)
        return 0
    say(reply.text)
    return FAILED


class Progress:
    """Tells somebody who waits how far it is, whenever that changes."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, text: str) -> None:
        """Tell it."""
        if text != self._last:
            self._last = text
            click.echo(f"  {text}", err=True)
