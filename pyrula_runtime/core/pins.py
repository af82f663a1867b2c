"""Runs that are pinned to a version which nobody serves: they wait for as long as nobody starts a worker for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

# of a workflow, the version that its run is bound to
Pin = tuple[str, str]


def unserved(pins: Mapping[Pin, int], served: Collection[tuple[str, str | None]]) -> dict[Pin, int]:
    """The pins that no live worker serves, most runs first. `served`: workflows and versions that some worker does."""
    left = {pin: runs for pin, runs in pins.items() if pin not in served}
    return dict(sorted(left.items(), key=lambda item: (-item[1], item[0])))


def told(pin: Pin, runs: int) -> str:
    """The sentence for people."""
    workflow, version = pin
    are = "1 run is" if runs == 1 else f"{runs:,} runs are"
    return f"{are} pinned to version {version!r} of {workflow!r}, which no live worker serves"
