"""What starts a workflow beside those who submit it, as authors write it: a schedule, or events that workflows tell."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from pyrula_runtime.client.emitting import checked_event_id, payload_of
from pyrula_runtime.core.cron import Cron
from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.core.ids import checked_name
from pyrula_runtime.core.scheduling import Declaration, Overlap
from pyrula_runtime.engine.program import EmitCall, Trigger
from pyrula_runtime.scheduling.zones import zone_named

Duration = float | timedelta
OverlapName = Literal["skip", "buffer_one", "cancel_other", "allow"]

_HOUR_S, _YEAR_S = 3600.0, 366 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When runs of a workflow begin by themselves: by `cron`, or `every` so many seconds; exactly one of the two.

    cron: five fields as in crontab(5), or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`.
    every: seconds or a timedelta, counted from 1970-01-01 UTC.
    timezone: whose clocks `cron` means, such as "Europe/Berlin"; a workflow's `scheduled_at` is told in it.
    overlap: what happens while the last run has not ended: "skip" this time; "buffer_one", let it wait for the end and
        skip further ones; "cancel_other", cancel the last run; "allow" both.
    catch_up: how long ago (seconds or timedelta) a time may be that nobody was there to fire; older ones are skipped.
    jitter: each time is fired up to so much later (seconds or timedelta), always by the same amount.

    UsageError for what is none of this.
    """

    cron: str | None = None
    every: Duration | None = None
    timezone: str = "UTC"
    overlap: OverlapName = "skip"
    catch_up: Duration = _HOUR_S
    jitter: Duration = 0.0

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if (self.cron is None) == (self.every is None):
            raise UsageError('a schedule needs either cron= or every=, as in Schedule(cron="0 3 * * *")')
        if self.cron is not None:
            Cron.parse(self.cron)
        zone_named(self.timezone)
        if self.overlap not in set(Overlap):
            raise UsageError(f"overlap={self.overlap!r} must be one of {', '.join(Overlap)}")
        self.declared("", None, takes_time=False)

    def declared(self, workflow: str, version: str | None, *, takes_time: bool) -> Declaration:
        """The schedule as the store keeps it."""
        return Declaration(
            workflow=workflow,
            version=version,
            cron=self.cron,
            every_ms=None if self.every is None else _ms(self.every, "every", 1.0),
            timezone=self.timezone,
            overlap=Overlap(self.overlap),
            catch_up_ms=_ms(self.catch_up, "catch_up", 10.0),
            jitter_ms=_ms(self.jitter, "jitter", 0.0),
            takes_time=takes_time,
        )


@dataclass(frozen=True, slots=True)
class OnEvent:
    """Runs begin when this event is told, with its payload as their input.

    filter: a quick plain function of the payload; a run begins if what it returns is true.
    """

    name: str
    filter: Callable[[Any], object] | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be. UsageError."""
        checked_name(self.name, "event")
        given: object = self.filter
        if given is not None and (not callable(given) or inspect.iscoroutinefunction(given)):
            raise UsageError(f"the filter of event {self.name!r} must be a plain function, not {given!r}")


def triggers(given: str | OnEvent | Sequence[str | OnEvent] | None) -> tuple[Trigger, ...]:
    """The events that `on_event=` names; UsageError if it names one twice."""
    if given is None:
        return ()
    each = [given] if isinstance(given, str | OnEvent) else list(given)
    events = [OnEvent(one) if isinstance(one, str) else one for one in each]
    for one in events:
        if not isinstance(one, OnEvent):
            raise UsageError(f"on_event= takes the names of events, or OnEvent(name, filter=...), not {one!r}")
    names = [one.name for one in events]
    if twice := {name for name in names if names.count(name) > 1}:
        raise UsageError(f"on_event= names {', '.join(sorted(twice))} twice; one filter can ask for both")
    return tuple(Trigger(event=one.name, admits=one.filter) for one in events)


def emit_call(name: str, payload: object, event_id: str | None) -> EmitCall:
    """An event that a body tells."""
    chosen = None if event_id is None else checked_event_id(event_id)
    return EmitCall(name=name, payload=payload_of(name, payload), event_id=chosen)


def _ms(given: object, name: str, least_s: float) -> int:
    seconds = given.total_seconds() if isinstance(given, timedelta) else given
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not least_s <= seconds <= _YEAR_S:
        raise UsageError(f"{name}={given!r} must be seconds or a timedelta, from {least_s:g} s to a year")
    return round(seconds * 1000)
