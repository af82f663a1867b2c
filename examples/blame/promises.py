"""What has to become of each run, and whether it did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_APP = Path(__file__).with_name("app.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What a guilty run is found out for. `code` is the line that does it; empty where no line can be told."""

    workflow: str
    deed: str
    cause: str
    step: str
    code: str = ""
    or_cause: str = ""  # what it may also be out for, if it had the store's write lock each time

    @property
    def place(self) -> str:
        """File and line number of the code, as a line of evidence begins."""
        lines = _APP.read_text().splitlines()
        return next((f"{_APP}:{number}" for number, line in enumerate(lines, 1) if self.code in line), "")


GUILTY = (
    Promise(
        workflow="sleeper",
        deed="sleeps synchronously",
        cause="loop_blocked",
        step="sleep_in_async_code",
        code="time.sleep(_HOUR_S)",
    ),
    Promise(
        workflow="matcher",
        deed="holds the GIL for ever",
        cause="loop_blocked",
        step="match_for_ever",
        code='re.match("(a+)+b", "a" * 64)',
        or_cause="store_frozen",
    ),
    Promise(
        workflow="crasher",
        deed="segfaults",
        cause="crashed",
        step="read_from_nowhere",
        code="ctypes.string_at(0)",
    ),
    Promise(workflow="leaver", deed="calls os._exit", cause="exited", step="leave", code="os._exit(7)"),
    Promise(workflow="leaker", deed="takes ever more memory", cause="out_of_memory", step="hoard"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What became of a run: its description, and after how many seconds the supervisor named it first."""

    run: dict[str, Any]
    named_s: float | None = None

    @property
    def detail(self) -> dict[str, Any]:
        """What its error says of the reason."""
        found: dict[str, Any] = (self.run["error"] or {}).get("detail") or {}
        return found

    @property
    def evidence(self) -> dict[str, Any]:
        """What is known of the last death."""
        found: dict[str, Any] = self.detail.get("evidence") or {}
        return found

    @property
    def took_s(self) -> float:
        """From submit to end."""
        return float((self.run["finished_ms"] or self.run["created_ms"]) - self.run["created_ms"]) / 1000


def broken(guilty: Sequence[tuple[Promise, Fate]], neighbours: Sequence[Fate]) -> Iterator[str]:
    """What is not as it was promised, a sentence each."""
    for promise, fate in guilty:
        yield from _wrong_of(promise, fate)
    for fate in neighbours:
        run = fate.run
        if run["status"] != "completed":
            yield f"the neighbour {run['run_id']} {run['status']}"
        if run["charges"]:
            yield f"the neighbour {run['run_id']} was charged {len(run['charges'])} times"


def _wrong_of(promise: Promise, fate: Fate) -> Iterator[str]:
    if fate.run["status"] != "quarantined":
        yield f"the {promise.workflow} {fate.run['status']}, and was not quarantined"
        return
    if fate.detail.get("cause") not in (promise.cause, promise.or_cause):
        yield f"the {promise.workflow} is out for {fate.detail.get('cause')}, not for {promise.cause}"
    if fate.evidence.get("step") != promise.step:
        yield f"the {promise.workflow} was found in step {fate.evidence.get('step')}, not in {promise.step}"
    if promise.code and f"{promise.place} " not in f"{fate.evidence.get('line')} ":
        yield f"the {promise.workflow} was found at {fate.evidence.get('line') or 'no line'}, not at {promise.code}"
    if fate.named_s is None:
        yield f"the supervisor never named the {promise.workflow}"
