"""`pyrula worker`: from flags and environment to a worker that serves, and from a signal to the end of its process.

Everything that can be wrong is looked at before the store is opened, and told together. The app comes after the
settings, because importing it may take long, and before the store, because a worker without code has no use for one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

from pyrula_runtime.cli.commands import example
from pyrula_runtime.cli.endings import Faults
from pyrula_runtime.cli.flags import flags, values_of
from pyrula_runtime.cli.signals import Signals
from pyrula_runtime.core.errors import AppImportError, UsageError
from pyrula_runtime.options import OPTIONS, WorkerOptions
from pyrula_runtime.settings import SETTINGS, Settings

if TYPE_CHECKING:
    from pyrula_runtime.worker import Worker

log = logging.getLogger("pyrula.worker")

Named = TypeVar("Named")
Found = TypeVar("Found")

_LEVELS = ("debug", "info", "warning", "error", "critical")


@click.command(epilog=example("pyrula worker --workflow app:process_order --health-port 8081"))
@click.option(
    "--workflow",
    "targets",
    multiple=True,
    metavar="MODULE[:ATTR]",
    help="A workflow to serve, or a module, for all that it registers; may be given several times.",
)
@click.option("--agent", "agents", multiple=True, metavar="MODULE:ATTR", help="Not served by this version yet.")
@click.option("--llm-ref", metavar="MODULE:ATTR", help="Not served by this version yet.")
@flags(SETTINGS)
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", help="[text]")
@click.option("--log-level", type=click.Choice(_LEVELS, case_sensitive=False), default="info", help="[info]")
@flags(OPTIONS)
def worker(
    *,
    targets: Sequence[str],
    agents: Sequence[str],
    llm_ref: str | None,
    log_format: str,
    log_level: str,
    **given: Any,
) -> int:
    """Serve workflows.

    Claims their runs and executes them until SIGTERM or SIGINT: then it drains, and a second signal ends it at once.
    """
    if agents or llm_ref:
        raise UsageError("this version serves no agents yet: leave out --agent and --llm-ref, and give --workflow")
    if not targets:
        raise UsageError("say what to serve: --workflow module:attribute, or --workflow module for all of a module")
    signals = Signals()
    made, settings = _made(targets, given, log_format, log_level)
    _name_process(targets)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)

    def drain() -> bool:
        loop.call_soon_threadsafe(made.request_stop)
        return made.health.started

    signals.drain_by(drain)
    code = loop.run_until_complete(_serve(made, settings))
    signals.ignore()
    return code


def _made(targets: Sequence[str], given: dict[str, Any], log_format: Any, log_level: str) -> tuple[Worker, Settings]:
    """The worker, ready to run; ConfigurationError has all faults of settings and options, then those of the app."""
    from pyrula_runtime.runtime_dir import runtime_dir
    from pyrula_runtime.stores.opening import open_store
    from pyrula_runtime.worker import Worker, WorkerSetup
    from pyrula_runtime.workflows import app
    from pyrula_runtime.workflows.logs import log_without_waiting

    faults = Faults()
    options = WorkerOptions()
    with faults.kept():
        options = WorkerOptions.from_env(os.environ, **values_of(OPTIONS, given))
    with faults.kept():
        settings = Settings.from_env(os.environ, **values_of(SETTINGS, given))
        store = open_store(settings.store_url_or(), shard_count=options.shard_count)
    with faults.kept():
        directory = runtime_dir(os.environ)
    faults.refuse()
    log_without_waiting(log_format, log_level.upper())
    for warning in settings.unserved_warnings():
        log.warning(warning)
    setup = WorkerSetup(
        programs=of_app(app.programs, targets),
        store=store,
        options=options,
        runtime_dir=directory,
        worker_id=settings.worker_id,
        codec=of_app(app.codec, options.codec),
    )
    return Worker(replace(setup, stack_file=_stack_file(directory, setup.incarnation))), settings


def _stack_file(directory: Path, incarnation: str) -> IO[bytes] | None:
    """Where this process writes as it dies; if there is no place for that, the black box will say so, and better."""
    from pyrula_runtime import stacks

    with contextlib.suppress(OSError):
        return stacks.write_at_death(directory, incarnation)
    return None


def of_app(find: Callable[[Named], Found], named: Named) -> Found:
    """What the app has under these names; a fault in the app is the app's, so it gets its own traceback."""
    from pyrula_runtime.workflows import app

    try:
        return find(named)
    except AppImportError as error:
        click.echo(app.story(error), err=True, nl=False)
        raise


def _name_process(targets: Sequence[str]) -> None:
    from setproctitle import setproctitle

    setproctitle(f"pyrula worker {' '.join(targets)}")


async def _serve(made: Worker, settings: Settings) -> int:
    """Run it, and answer the probes from before its start until after its end."""
    async with contextlib.AsyncExitStack() as stack:
        if settings.health_port is not None:
            from pyrula_runtime.http import serve_probes

            await stack.enter_async_context(serve_probes(made, settings.health_host, settings.health_port))
        return await made.run()
