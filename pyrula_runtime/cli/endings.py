"""How a command ends: which sentence, which exit code, and the way out of the process.

0 done, 1 the world or a run failed, 2 asked for what cannot be, 3 no supervisor answers, 78 configuration or app are
wrong (systemd and others do not start such a process again), 130 and 143 by a second signal. A person's mistake costs
them one sentence, never a traceback; the only tracebacks are that of an app that cannot be imported (see `worker`) and
that of a bug of ours.
"""

from __future__ import annotations

import contextlib
import errno
import sys
from collections.abc import Callable, Iterator, Sequence

import click

from pyrula_runtime.core.errors import ConfigurationError, LimitExceeded, NoSupervisor, PyrulaError, UsageError
from pyrula_runtime.streams import fill_gaps

FAILED, USAGE, NOBODY, CONFIGURATION, INTERRUPTED, TERMINATED = 1, 2, 3, 78, 130, 143

_PYRULA = "pyrula"
# what a file or device that takes no more says; the store's own files speak through errors of ours
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _pyrula() -> click.Command:
    from pyrula_runtime.cli.commands import pyrula

    return pyrula


def ended(args: Sequence[str], program: str = _PYRULA, find: Callable[[], click.Command] = _pyrula) -> int:
    """Run the command line of a program; its exit code, after telling what went wrong."""

    def say(sentence: str) -> None:
        click.echo(f"{program}: {sentence}", err=True)

    fill_gaps()
    try:
        code = find().main(list(args), prog_name=program, standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except click.ClickException as error:
        say(error.format_message())
        return USAGE
    except PyrulaError as error:
        for sentence in _told(error):
            say(sentence)
        return _code(error)
    except SystemExit as error:  # a reader of our output that went away
        return error.code if isinstance(error.code, int) else FAILED
    except Exception as error:  # noqa: BLE001 - a bug: told in full, and the process ends all the same
        if isinstance(error, OSError) and error.errno in _FULL:
            say(f"the output could not be written: {error.strerror}")
            return FAILED
        sys.excepthook(*sys.exc_info())
        say("this is a bug of Pyrula; please report it with the lines above")
        return FAILED
    return code if isinstance(code, int) else 0


def say(sentence: str) -> None:
    """One diagnostic to a person, in the name of the program whose command this is."""
    context = click.get_current_context(silent=True)
    program = context.find_root().info_name if context else None
    click.echo(f"{program or _PYRULA}: {sentence}", err=True)


def _told(error: PyrulaError) -> tuple[str, ...]:
    return error.faults if isinstance(error, ConfigurationError) else (str(error),)


def _code(error: PyrulaError) -> int:
    if isinstance(error, ConfigurationError):
        return CONFIGURATION
    if isinstance(error, NoSupervisor):
        return NOBODY
    return USAGE if isinstance(error, UsageError | LimitExceeded) else FAILED


class Faults:
    """Collects the faults of several attempts, so that a person hears of all of them at once."""

    def __init__(self) -> None:
        self._found: list[str] = []

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the faults of what is tried within."""
        try:
            yield
        except ConfigurationError as error:
            self._found += error.faults

    def refuse(self) -> None:
        """Raise all of them as one, if there are any."""
        if self._found:
            raise ConfigurationError(tuple(dict.fromkeys(self._found)))
