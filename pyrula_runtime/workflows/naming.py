"""What workflows and steps are called and how long they may take, as far as their definitions say."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pyrula_runtime.core.errors import UsageError


def name_of(function: Callable[..., Any], kind: str) -> str:
    """The name of a function that is the same in every process; UsageError for one that has none."""
    name = getattr(function, "__name__", None)
    if not isinstance(name, str) or name == "<lambda>":
        raise UsageError(
            f"a {kind} needs a function with a name, because its journal is found again by it: define {function!r} "
            f"with def, at the top level of a module, and pass that with its arguments"
        )
    return name


def checked_timeout(timeout: object, of: str) -> float | None:
    """Seconds above 0, or None for no limit; UsageError otherwise."""
    return None if timeout is None else checked_seconds(timeout, f"{of}: timeout")


def checked_seconds(seconds: object, what: str) -> float:
    """Seconds above 0; UsageError otherwise."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
        raise UsageError(f"{what}={seconds!r} must be a number of seconds above 0")
    return float(seconds)
