"""`pyrula completion`: the script that teaches a shell to complete our command lines."""

from __future__ import annotations

import click

from pyrula_runtime.cli.commands import example

SHELLS = ("bash", "zsh", "fish")


@click.command(epilog=example('eval "$(pyrula completion bash)"'))
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script that completes for a shell.

    Put the example, with the name of your shell, into its start-up file; for fish: pyrula completion fish | source
    """
    from click.shell_completion import get_completion_class

    from pyrula_runtime.cli.commands import pyrula

    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"this version of click cannot complete for {shell}")
    click.echo(made(pyrula, {}, "pyrula", "_PYRULA_COMPLETE").source())
