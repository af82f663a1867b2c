"""What a body waits for, from what its author writes: durations and moments, checked where the author can see it."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

from pyrula_runtime.core.entries import OpKind
from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.core.ids import checked_name
from pyrula_runtime.engine.program import WaitCall
from pyrula_runtime.forms.form import ANY, form_of

_EPOCH = datetime.fromtimestamp(0, UTC)
_MS = timedelta(milliseconds=1)
# some 30,000 years: beyond it a time is a slip, and would not fit where others keep it
_LONGEST_MS = 10**15

Duration = float | timedelta


def sleep_for(duration: Duration) -> WaitCall:
    """A sleep of this many seconds, or of this `timedelta`."""
    return WaitCall(kind=OpKind.sleep, name="sleep", for_ms=duration_ms(duration, "ctx.sleep"))


def sleep_until(moment: datetime) -> WaitCall:
    """A sleep to this moment, which says its time zone; none at all if it is over."""
    if not isinstance(moment, datetime):
        raise UsageError(f"ctx.sleep_until takes a datetime, not {moment!r}")
    if moment.utcoffset() is None:
        raise UsageError(
            f"ctx.sleep_until({moment!r}): the datetime must say its time zone, as datetime(..., tzinfo=UTC) does"
        )
    return WaitCall(kind=OpKind.sleep, name="sleep", until_ms=math.ceil((moment - _EPOCH) / _MS))


def signal(name: str, type: Any, timeout: Duration | None) -> WaitCall:
    """The next signal of this name, its payload read as `type`."""
    name = checked_name(name, "signal")
    what = f"the payload of signal {name!r}"
    for_ms = None if timeout is None else duration_ms(timeout, f"ctx.wait_signal({name!r}), timeout")
    return WaitCall(
        kind=OpKind.signal,
        name=name,
        for_ms=for_ms,
        hears=name,
        late=f"no signal {name!r} came within {(for_ms or 0) / 1000:g} s",
        from_json=ANY.from_json if type is None else form_of(type).told_of(what).from_json,
    )


def time_limit(duration: Duration) -> WaitCall:
    """The end of a `ctx.timeout`."""
    for_ms = duration_ms(duration, "ctx.timeout")
    return WaitCall(kind=OpKind.timeout, name="timeout", for_ms=for_ms, late=f"it took longer than {for_ms / 1000:g} s")


def duration_ms(duration: object, of: str) -> int:
    """Whole milliseconds, never fewer than were asked for; UsageError for what is no time to wait."""
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds * 1000 <= _LONGEST_MS:
        raise UsageError(f"{of}: {duration!r} must be a number of seconds from 0 on, or a timedelta")
    return math.ceil(seconds * 1000)
