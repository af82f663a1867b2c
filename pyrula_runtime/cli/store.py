"""`pyrula store`: copy the store while it is in use, and see whether it is sound."""

from __future__ import annotations

import os
from pathlib import Path

import click

from pyrula_runtime.cli.commands import example
from pyrula_runtime.cli.flags import STORE, flag
from pyrula_runtime.cli.session import FILE
from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.settings import Settings


def file_of(store_url: str | None) -> Path:
    """The file of the store that flag and environment name; UsageError if it is none."""
    from pyrula_runtime.stores.opening import open_store

    url = open_store(Settings.from_env(os.environ, store_url=store_url).store_url_or()).url
    if not url.startswith(FILE):
        raise UsageError(f"{url} is no file; use the tools of its server for backups and checks")
    return Path(url.removeprefix(FILE))


@click.command(epilog=example("pyrula store backup /backups/pyrula-monday.db"))
@click.argument("target", type=click.Path(path_type=Path))
@flag(STORE)
def backup(target: Path, store_url: str | None) -> None:
    """Copy the store to a new file.

    The copy is complete and checked, and workers go on meanwhile. TARGET must not exist.
    """
    from pyrula_runtime.stores.sqlite.backup import backup as copy

    source = file_of(store_url)
    copy(source, target)
    click.echo(f"copied {source} to {target} ({target.stat().st_size:,} bytes)")


@click.command(epilog=example("pyrula store check"))
@flag(STORE)
def check(store_url: str | None) -> int:
    """Look for damage in the store.

    Also for runs, locks and journals that contradict each other. Exit code 1 if anything was found.
    """
    from pyrula_runtime.stores.sqlite.checks import check as problems_of

    path = file_of(store_url)
    if not path.exists():
        raise UsageError(f"there is no store at {path}")
    problems = problems_of(path)
    for problem in problems:
        click.echo(problem)
    if not problems:
        click.echo(f"{path} is sound")
    return 1 if problems else 0
