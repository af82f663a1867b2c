"""Servers of ASGI apps whose worker processes are kept by a parent: gunicorn with its own ASGI worker, and uvicorn."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.bench import Home, Launch, module
from benchmarks.systems.environments import environment, pins

PROCS = 4
_HOST = "127.0.0.1"


def version(name: str) -> str:
    """Which one is installed."""
    (pin,) = [line for line in pins("servers").splitlines() if line.startswith(f"{name}==")]
    return pin.partition("==")[2]


def gunicorn(app: str, home: Home, port: int, grace_s: int | None = None) -> Launch:
    """Gunicorn, with its defaults or another grace for stopping."""
    grace = [] if grace_s is None else ["--graceful-timeout", str(grace_s)]
    bind = ["--bind", f"{_HOST}:{port}", "--workers", str(PROCS), "--worker-class", "asgi"]
    return _module("gunicorn", [*bind, "--control-socket", str(home.path / "gunicorn.ctl"), *grace, app])


def uvicorn(app: str, home: Home, port: int, grace_s: int | None = None) -> Launch:
    """Uvicorn, with its defaults or a grace for stopping, of which it has none by itself."""
    grace = [] if grace_s is None else ["--timeout-graceful-shutdown", str(grace_s)]
    return _module("uvicorn", ["--host", _HOST, "--port", str(port), "--workers", str(PROCS), *grace, app])


def _module(name: str, arguments: Sequence[str]) -> Launch:
    return module(name, *arguments, python=environment("servers"))
