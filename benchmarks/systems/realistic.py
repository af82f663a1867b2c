"""The supervisor with an app of the usual weight, in an environment that has what this one imports."""

from __future__ import annotations

from benchmarks.systems.environments import environment
from benchmarks.systems.supervisor import Given

_APP = "benchmarks.inside.realistic_app"
START_METHODS = {
    "template": ("--start-method", "template"),
    "template, warm": ("--start-method", "template", "--warmup", f"{_APP}:warm"),
    "spawn": ("--start-method", "spawn"),
}


def realistic(start_method: str, *flags: str) -> Given:
    """Four workers, started in one of these ways."""
    return Given(
        app=_APP,
        flags=(*START_METHODS[start_method], *flags),
        python=environment("app", with_product=True),
    )
