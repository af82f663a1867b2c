"""The status document as a person reads it at a glance: what it is, a row for each process, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, Group, JustifyMethod, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from pyrula_runtime.cli.tables import harmless, size
from pyrula_runtime.core.spans import spoken

_COLOURS = {
    "running": "green",
    "ready": "green",
    "starting": "yellow",
    "reloading": "yellow",
    "draining": "blue",
    "silent": "yellow",
    "blocked": "bold red",
    "backoff": "red",
    "stopped": "bright_black",
}
_HEADINGS = ("slot", "pid", "state", "up", "turns", "done/s", "lag", "memory", "cpu", "restarts", "last exit")
_RIGHT = frozenset({"pid", "up", "turns", "done/s", "lag", "memory", "cpu", "restarts"})
# columns from which on a last exit has room beside the numbers
_WIDE = 110
# lines of the newest incidents, and of a blocked lane's stack
_INCIDENTS = 5
_STACK_LINES = 6


def board(document: Mapping[str, Any]) -> RenderableType:
    """All of it."""
    parts: list[RenderableType] = [*_head(document), Text(), _Rows(document["children"])]
    for title, lines in (
        ("blocked", list(_blocked(document["children"]))),
        ("not as it should be", [Text(harmless(each)) for each in document["supervisor"]["degraded"]]),
        ("lately", list(_incidents(document["incidents"]))),
    ):
        if lines:
            parts += [Text(), Text(title, style="bold"), *(Text("  ").append_text(line) for line in lines)]
    return Group(*parts)


def _head(document: Mapping[str, Any]) -> Iterator[Text]:
    told = document["supervisor"]
    yield Text.assemble(
        (harmless(told["name"]), "bold"),
        "  ",
        _state(told["state"]),
        f"  {told['ready']}/{told['procs']} ready, pid {told['pid']}, up {_span(told['uptime_s'])}, ",
        f"generation {told['generation']}, version {told['version']}",
    )
    reason = f" ({harmless(told['start_method_reason'])})" if told["start_method_reason"] else ""
    yield Text(f"start    {told['start_method']}{reason}")
    if told["health_url"]:
        yield Text(f"health   {told['health_url']}")
    yield Text("store    ").append_text(_store(document["store"]))
    yield Text("queue    ").append_text(_queue(document["queue"]))
    if leased := [f"{child['shards']} by {child['slot']}" for child in document["children"] if child["shards"]]:
        yield Text(f"shards   leased: {', '.join(leased)}")


def _store(store: Mapping[str, Any]) -> Text:
    url = harmless(store["url"]) or "not known yet"
    if store["ok"] is None:
        return Text(f"{url}: nothing was heard of it yet", style="yellow")
    if not store["ok"]:
        return Text(f"{url} does not serve for {_span(store['since_s'])}: {harmless(store['fault'])}", style="red")
    if store["stale"]:
        return Text(f"{url} served {_span(store['age_s'])} ago; the clerk is silent since then", style="yellow")
    return Text(f"{url}, well for {_span(store['since_s'])}")


def _queue(queue: Mapping[str, Any]) -> Text:
    if queue["age_s"] is None:
        return Text("not known yet", style="yellow")
    counts = [f"{value} {name}" for name, value in queue.items() if name != "age_s" and (value or name == "queued")]
    return Text(", ".join(counts), style="red" if queue["quarantined"] else "")


class _Rows:
    """The table of children. In a narrow terminal the last exits stand below it, so that every number is whole."""

    def __init__(self, children: Sequence[Mapping[str, Any]]) -> None:
        self._rows = [_row(child) for child in children]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it as wide as there is room."""
        is_wide = options.max_width >= _WIDE
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2 if is_wide else 1, 0, 0))
        for heading in _HEADINGS if is_wide else _HEADINGS[:-1]:
            is_last = heading == _HEADINGS[-1]
            justify: JustifyMethod = "right" if heading in _RIGHT else "left"
            table.add_column(heading, justify=justify, no_wrap=True, overflow="ellipsis" if is_last else "crop")
        for row in self._rows:
            table.add_row(*(row if is_wide else row[:-1]))
        yield table
        for row in self._rows:
            if row[-1] and not is_wide:
                yield Text.assemble("last exit of ", row[0], ": ", row[-1], style="bright_black")


def _row(child: Mapping[str, Any]) -> list[Text]:
    is_worker = child["role"] == "worker"
    place = (
        str(child["slot"]) if is_worker else f"{child['role']} {child['slot']}" if child["slot"] >= 0 else child["role"]
    )
    lives, works = child["pid"] is not None, child["role"] != "clerk"
    told = [
        Text(place),
        Text(str(child["pid"]) if lives else "-"),
        _state("silent" if child["stale"] and child["state"] == "ready" else child["state"]),
        Text(_span(child["uptime_s"]) if lives else "-"),
        Text(f"{child['turns_running']}/{child['capacity']}" if lives and works else "-"),
        Text(f"{child['turns_per_s']:.1f}" if lives and works else "-"),
        Text(spoken(round(child["lane_lag_ms"])) if lives and works else "-"),
        Text("-" if child["rss_bytes"] is None else size(child["rss_bytes"])),
        Text("-" if child["cpu_percent"] is None else f"{child['cpu_percent']:.0f}%"),
        Text(str(child["restarts"])),
        Text(harmless(child["last_exit"].removeprefix(f"{child['role']} {child['slot']} ")).partition("\n")[0]),
    ]
    if child["stale"]:
        for cell in told[4:7]:
            cell.stylize("bright_black")
    return told


def _blocked(children: Sequence[Mapping[str, Any]]) -> Iterator[Text]:
    for child in children:
        if (by := child["blocked"]) is None:
            continue
        whose = (
            f"run {by['run_id']} ({by['workflow']}), step {by['step'] or 'none'}" if by["run_id"] else "code of no run"
        )
        held = ", with the GIL held" if by["gil_held"] else ""
        place = child["role"] if child["slot"] < 0 else f"{child['role']} {child['slot']}"
        at = f", at {by['line']}" if by["line"] else ""
        yield Text(harmless(f"{place} for {_span(by['for_s'])}{held}: {whose}{at}"), style="red")
        if by["hint"]:
            yield Text(f"    {harmless(by['hint'])}", style="yellow")
        for line in _innermost(by["stack"]):
            yield Text(f"    {harmless(line)}", style="bright_black")


def _innermost(stack: str) -> list[str]:
    """The lines nearest to what is executed: Python tells them last, a stack taken with the GIL held first."""
    lines = stack.rstrip("\n").splitlines()
    return lines[:_STACK_LINES] if "most recent call first" in stack else lines[-_STACK_LINES:]


def _incidents(incidents: Sequence[Mapping[str, Any]]) -> Iterator[Text]:
    for each in incidents[:_INCIDENTS]:
        first, _, more = each["text"].partition("\n")
        yield Text(harmless(f"{_span(each['age_s'])} ago: {first}{' …' if more else ''}"), style="bright_black")


def _state(state: str) -> Text:
    return Text(state, style=_COLOURS.get(state, ""))


def _span(seconds: float | None) -> str:
    return "an unknown time" if seconds is None else spoken(round(seconds * 1000))
