"""The same faults for Pyrula's supervisor and for servers whose workers a parent keeps, told in words.

Short faults come one after another, so that their times are true. Those in which all wait (a stuck or stopped worker, a
pause) happen at once, each in a home of its own, none before all workers of all homes are ready: together they cost the
time of the longest, and one busy core.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier

from benchmarks.bench import Bench
from benchmarks.figures import Case, Measurement, Metric
from benchmarks.measurements import injuries
from benchmarks.processes import become_subreaper, end_orphans
from benchmarks.systems import servers
from benchmarks.systems.suspects import Pyrula, Server, Start, started, workers

_READY_WITHIN_S = 120.0

_SHORT: dict[str, tuple[str, Callable[[Bench, Start], str]]] = {
    "F1": ("F1 SIGKILL of the parent", injuries.parent_killed),
    "F2": ("F2 app fails at import", injuries.import_fails),
    "F3": ("F3 every worker dies 1 s after it is ready", injuries.all_die),
    "F8": ("F8 SIGKILL of one worker", injuries.one_killed),
    "F9": ("F9 SIGTERM 0.15 to 1.5 s after the start, six times", injuries.stopped_early),
}
_GRACE_S = 10
_LONG: dict[str, tuple[str, injuries.Injury]] = {
    "F4s": ("F4s time.sleep on a worker's loop", partial(injuries.stuck, how="sleeps")),
    "F4r": ("F4r regular expression that holds the GIL", partial(injuries.stuck, how="matches")),
    "F5": ("F5 SIGSTOP of one worker", injuries.worker_stopped),
    "F6": (f"F6 SIGTERM with a stuck worker, grace {_GRACE_S} s", partial(injuries.stop_with_stuck, again=False)),
    "F6b": ("F6 and a second SIGTERM 2 s later", partial(injuries.stop_with_stuck, again=True)),
    "F7": ("F7 all paused for 34 s, children awake first", partial(injuries.paused, parent_first=False)),
    "F7b": ("F7b all paused for 34 s, parent awake first", partial(injuries.paused, parent_first=True)),
}


def measurement() -> Measurement:
    """The product, gunicorn, uvicorn, all with four workers."""
    titles = {key: title for key, (title, _) in (_SHORT | _LONG).items()}
    suspects: dict[str, Start] = {
        "Pyrula": Pyrula,
        f"gunicorn {servers.version('gunicorn')}, asgi": partial(Server, servers.gunicorn),
        f"uvicorn {servers.version('uvicorn')}": partial(Server, servers.uvicorn),
    }
    return Measurement(
        name="faults",
        title="The same faults for parents of four workers",
        about=(
            "Defaults but for the grace of F6. Each is watched for as long as is told; gunicorn acts on a silent "
            "worker after 30 s, so that pauses last a little longer."
        ),
        metrics=tuple(Metric(key=key, title=titles[key]) for key in sorted(titles)),
        cases=tuple(Case(system=name, run=partial(_run, start), at_most=1) for name, start in suspects.items()),
    )


def _run(start: Start, bench: Bench) -> dict[str, str]:
    become_subreaper()
    try:
        found = {key: fault(bench, start) for key, (_, fault) in _SHORT.items()}
        barrier = Barrier(len(_LONG))
        with ThreadPoolExecutor(len(_LONG)) as pool:
            coming = {key: pool.submit(_injured, bench, start, (key, barrier)) for key in _LONG}
            return found | {key: each.result() for key, each in coming.items()}
    finally:
        end_orphans()


def _injured(bench: Bench, start: Start, what: tuple[str, Barrier]) -> str:
    key, barrier = what
    _, injury = _LONG[key]
    grace_s = _GRACE_S if key.startswith("F6") else None
    try:
        with bench.home() as home, started(start, home, grace_s=grace_s) as suspect:
            pids = workers(suspect)
            barrier.wait(_READY_WITHIN_S)
            return injury(bench, suspect, pids)
    except BaseException:
        barrier.abort()  # nobody waits for one that will not come
        raise
