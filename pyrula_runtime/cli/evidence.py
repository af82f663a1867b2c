"""What is held against a run, for people: the last charge with its evidence, the stack, a hint, and all that led there.

A stack as it was written goes through the event loop, a thread pool and Pyrula before it comes to the user's code, and
often ends in Python's. Shown are the user's own frames, and the one that they were stuck in; --json has all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import click

from pyrula_runtime.cli.tables import dated, fields, size, table
from pyrula_runtime.core.deaths import ENDED_ITSELF, Cause
from pyrula_runtime.core.frames import Frame, frames_of
from pyrula_runtime.core.hints import hint
from pyrula_runtime.core.spans import ago, spoken
from pyrula_runtime.users_code import is_users

_CAUSES = {
    Cause.loop_blocked: "its code kept the event loop or the GIL of its worker past the limit",
    Cause.crashed: "its code crashed its worker",
    Cause.exited: "its code ended the process of its worker",
    Cause.out_of_memory: "its worker ran out of memory",
    Cause.store_frozen: "its worker stood still while it kept the store's write lock",
    Cause.killed: "its worker was killed, nobody knows why",
}
_STOOD_STILL = "its worker had no supervisor and ended itself, since its threads stood still past the limit"


def print_evidence(told: dict[str, Any], now_at_ms: int) -> None:
    """All that is held against a described run; nothing if that is nothing."""
    last = _last(told)
    if last is not None:
        click.echo()
        fields(_facts(last, now_at_ms))
    if told["charges"] or told["marks"]:
        click.echo()
        table(["charged or marked", "when", "cause", "step", "for", "worker", "because"], _rows(told, now_at_ms))


def is_poison(error: dict[str, Any]) -> bool:
    """Whether this is the error of a quarantined run, whose evidence is told better than by its details."""
    return isinstance((error.get("detail") or {}).get("evidence"), dict)


def _last(told: dict[str, Any]) -> dict[str, Any] | None:
    """The last charge; that of a quarantined run is part of its error as well."""
    if told["charges"]:
        last: dict[str, Any] = told["charges"][-1]
        return last
    error = told["error"]
    if error is None or not is_poison(error):
        return None
    detail: dict[str, Any] = error["detail"]
    facts: dict[str, Any] = detail["evidence"]
    return facts | {"at_ms": None, "cause": detail["cause"], "for_ms": facts["duration_ms"]}


def _facts(charge: dict[str, Any], now_at_ms: int) -> list[tuple[str, str]]:
    cause = _cause(charge["cause"])
    means = f"{charge['cause']}: {_CAUSES[cause]}" if cause in _CAUSES else charge["cause"]
    if cause is Cause.killed and charge["exit"].startswith(ENDED_ITSELF):
        cause, means = Cause.loop_blocked, f"{charge['cause']}: {_STOOD_STILL}"
    step, op_id = charge["step"], f" ({charge['op_id']})" if charge["op_id"] else ""
    body = "the workflow's body" if charge["for_ms"] else ""
    worker = f"{charge['worker']} (pid {charge['pid']})" if charge["pid"] else charge["worker"]
    return [
        ("cause", means),
        ("step", f"{step}{op_id}" if step else body),
        ("line", charge["line"]),
        ("for", spoken(charge["for_ms"]) if charge["for_ms"] else ""),
        ("when", dated(charge["at_ms"], now_at_ms)),
        ("worker", worker),
        ("exit", charge["exit"]),
        ("memory", _memory(charge)),
        ("stack", "\n".join(stack_lines(charge["stack"]))),
        ("hint", hint(cause, charge["line"], charge["stack"])),
    ]


def _cause(name: str) -> Cause:
    """The cause of this name; one that a newer version tells apart is nobody's fault to us."""
    return Cause(name) if name in set(Cause) else Cause.blameless


def _memory(charge: dict[str, Any]) -> str:
    if not charge["rss_bytes"]:
        return ""
    limit = f" of {size(charge['limit_bytes'])}" if charge["limit_bytes"] else ""
    return f"{size(charge['rss_bytes'])}{limit}"


def stack_lines(stack: str) -> Iterator[str]:
    """The user's own frames, outermost first, and what they were in; all of a stack that has none of theirs."""
    frames = frames_of(stack)
    own = [each for each in frames if is_users(each.file)]
    if not own:
        yield from stack.strip("\n").splitlines()
        return
    for each in own:
        yield from _shown(each)
    rest = len(frames) - len(own)
    if frames[-1] is not own[-1]:
        yield "in it, Python's own:"
        yield from _shown(frames[-1])
        rest -= 1
    if rest:
        yield f"(and {rest} of Python's and Pyrula's own; --json has all)"


def _shown(frame: Frame) -> Iterator[str]:
    yield f'File "{frame.file}", line {frame.line}, in {frame.function}'
    if frame.source:
        yield f"  {frame.source}"


def _rows(told: dict[str, Any], now_at_ms: int) -> Iterator[Sequence[str]]:
    """Oldest first. What one death cost is one row: a conviction in a cell charges for the marks before it too."""
    charges = [each | {"stack": ""} for each in told["charges"]]
    alike = [(same, len(list(all_of_them))) for same, all_of_them in groupby(charges)]
    found = [(each["at_ms"], _charge_row(each, count, now_at_ms)) for each, count in alike]
    found += [(each["at_ms"], _mark_row(each, now_at_ms)) for each in told["marks"]]
    yield from (row for _, row in sorted(found, key=lambda pair: pair[0]))


def _charge_row(charge: dict[str, Any], count: int, now_at_ms: int) -> list[str]:
    what = "charged" if count == 1 else f"charged {count} times"
    return [what, *_common(charge, now_at_ms, charge["for_ms"]), charge["exit"] or "its own doing"]


def _mark_row(mark: dict[str, Any], now_at_ms: int) -> list[str]:
    why = "it was executing" if mark["executing"] else "it was in flight"
    return ["marked", *_common(mark, now_at_ms, 0), f"{why}, alone in a cell" if mark["in_cell"] else why]


def _common(each: dict[str, Any], now_at_ms: int, for_ms: int) -> list[str]:
    return [
        ago(each["at_ms"], now_at_ms),
        each["cause"],
        each["step"],
        spoken(for_ms) if for_ms else "",
        each["worker"],
    ]
