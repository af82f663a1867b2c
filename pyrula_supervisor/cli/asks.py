"""The commands that have a supervisor do something: stop, reload, scale, restart, dump."""

from __future__ import annotations

import time

import click

from pyrula_runtime.cli.commands import example
from pyrula_runtime.cli.endings import FAILED, say
from pyrula_runtime.cli.numbers import Whole
from pyrula_supervisor.cli.doors import act, door
from pyrula_supervisor.cli.group import named
from pyrula_supervisor.naming import is_taken
from pyrula_supervisor.options import MAX_PROCS
from pyrula_supervisor.requests import Request

# how long a process that has said its last word may take to be gone, and how often it is looked (seconds)
_GONE_WITHIN_S = 5.0
_LOOK_EVERY_S = 0.02

_SLOT = click.argument("slot", type=Whole(0, MAX_PROCS - 1))
_WAIT = click.option("--wait", is_flag=True, help="Wait until it is over, and tell what became of it.")


@click.command(epilog=example("pyrula-supervisor stop --wait"))
@_WAIT
@named
def stop(*, wait: bool, name: str | None) -> int:
    """Drain all workers and end the supervisor.

    Runs get as long as the supervisor's --shutdown-grace to finish; the rest is handed back and goes on elsewhere.
    """
    to = door(name)
    code = act(to, Request(command="stop", wait=wait))
    deadline_s = time.monotonic() + _GONE_WITHIN_S
    while wait and code == 0 and is_taken(to.directory, to.name):
        if time.monotonic() > deadline_s:
            say(f"the supervisor {to.name!r} has ended its work, but its process is still there")
            return FAILED
        time.sleep(_LOOK_EVERY_S)
    return code


@click.command(epilog=example("pyrula-supervisor reload --wait"))
@_WAIT
@named
def reload(*, wait: bool, name: str | None) -> int:
    """Serve the code that is on disk now.

    One worker proves it, then the others follow one by one, each new one before its old one goes. If it fails, what was
    served before stays; with --wait the reason is told and the exit code is 1.
    """
    return act(door(name), Request(command="reload", wait=wait))


@click.command(epilog=example("pyrula-supervisor scale 8"))
@click.argument("procs", type=Whole(1, MAX_PROCS))
@named
def scale(*, procs: int, name: str | None) -> int:
    """Have so many workers, until the supervisor ends."""
    return act(door(name), Request(command="scale", number=procs))


@click.command(epilog=example("pyrula-supervisor restart 2"))
@_SLOT
@named
def restart(*, slot: int, name: str | None) -> int:
    """Replace the worker of one slot, new before old."""
    return act(door(name), Request(command="restart", number=slot))


@click.command(epilog=example("pyrula-supervisor dump 2"))
@_SLOT
@named
def dump(*, slot: int, name: str | None) -> int:
    """Show what the lane of a slot's worker executes just now.

    Also while it is stuck; and while a thread holds the GIL, what that one executes.
    """
    return act(door(name), Request(command="dump", number=slot), tells=False)
