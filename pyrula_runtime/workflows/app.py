"""The user's app as whoever serves it sees it: its programs, its hooks, and what is told when it cannot be had."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from itertools import dropwhile
from pathlib import Path

from pyrula_runtime.core.errors import AppImportError, ConfigurationError, HookError, PyrulaError, UsageError
from pyrula_runtime.engine.payloads import Codec
from pyrula_runtime.engine.program import Program
from pyrula_runtime.workflows.loading import function_at, object_at, resolve
from pyrula_runtime.workflows.programs import program_of

_OURS = str(Path(__file__).resolve().parent.parent)


def programs(targets: Sequence[str]) -> list[Program]:
    """Import the app and make what is to be served of it. Raises ConfigurationError."""
    try:
        workflows = resolve(targets)
    except SystemExit as error:
        raise ConfigurationError([f"the app ended the process while it was imported: {error.code}"]) from error
    try:
        return [program_of(workflow) for workflow in workflows]
    except UsageError as error:
        raise ConfigurationError([str(error)]) from error


def call_hook(option: str, target: str) -> None:
    """Call the function that an option names as module:function. Raises ConfigurationError, also for what it raises."""
    hook = function_at(target)
    try:
        hook()
    except Exception as error:
        raise HookError(option, target, error) from error


def codec(target: str | None) -> Codec | None:
    """The codec that an option names as module:attribute, if it names one. Raises ConfigurationError."""
    if target is None:
        return None
    found: Codec = object_at(target)
    missing = [verb for verb in ("encode", "decode") if not callable(getattr(found, verb, None))]
    if missing or isinstance(found, type):
        why = "it is a class: name an instance" if isinstance(found, type) else f"it has no {' and no '.join(missing)}"
        raise ConfigurationError([f"codec {target!r} is no codec: {why}"])
    return found


def story(error: ConfigurationError) -> str:
    """The traceback of the app's own error, from the app's first line on; empty if the fault is not in its code.

    How we came to import it is no part of the story.
    """
    if not isinstance(error, AppImportError | HookError):
        return ""
    cause = error.__cause__ or error
    told = traceback.TracebackException.from_exception(cause)
    frames = list(dropwhile(lambda frame: _is_import(frame.filename), told.stack))
    if isinstance(cause, PyrulaError):  # a line of the app was refused: how we came to find that is no part either
        told.__cause__ = told.__context__ = None
        frames = list(dropwhile(lambda frame: _is_refusing(frame.filename), reversed(frames)))[::-1]
    told.stack = traceback.StackSummary.from_list(frames)
    return "".join(told.format())


def _is_import(filename: str) -> bool:
    return filename.startswith((_OURS, "<frozen importlib")) or filename.endswith("importlib/__init__.py")


def _is_refusing(filename: str) -> bool:
    return filename.startswith((_OURS, "<string>"))  # a dataclass of ours has its `__init__` in a string
