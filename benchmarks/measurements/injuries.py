"""The faults themselves: do it, watch what the parent makes of it, say so in a few words."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Sequence

from benchmarks.bench import Bench, Unfit
from benchmarks.processes import all_dead_after, descendants, is_dead, send_all
from benchmarks.systems.suspects import Start, Suspect, started, workers

# a fault while all workers are ready: the bench, the suspect, its workers
Injury = Callable[[Bench, Suspect, Sequence[int]], str]

_ORPHANS_S = 3.0
_IMPORT_S = 10.0
_DYING_S = 20
_STUCK_S = 36
_PAUSE_S = 34
_BETWEEN_S = 0.7  # between the two awakenings
_AFTER_S = 4
_STOP_S = 32  # the grace, three waits of 5 s for what was cancelled, 5 s for the end, and some
_SECOND_S = 2.0
_EARLY_S = (0.15, 0.3, 0.5, 0.8, 1.1, 1.5)
_LOOK_S = 0.02
_ASK_S = 0.1


def parent_killed(bench: Bench, start: Start) -> str:
    """F1."""
    with bench.home() as home, started(start, home) as suspect:
        workers(suspect)
        pids = descendants(suspect.process.pid)
        took_s = all_dead_after(pids, home.kill(suspect.process), _ORPHANS_S)
        left = [pid for pid in pids if not is_dead(pid)]
        send_all(left, signal.SIGKILL)
        all_dead_after(left, time.monotonic_ns(), _ORPHANS_S)
    if took_s is None:
        return f"{len(left)} of {len(pids)} processes live on"
    return f"all gone in {_span(took_s)}"


def import_fails(bench: Bench, start: Start) -> str:
    """F2."""
    with bench.home() as home, started(start, home, "broken") as suspect:
        ended = _ended(suspect, _IMPORT_S)
        count = len(home.tape.of("imported"))
    return f"{ended}, {count} import{'s' * (count != 1)}"


def all_die(bench: Bench, start: Start) -> str:
    """F3."""
    window_s = bench.size(_DYING_S, 4)
    with bench.home() as home, started(start, home, "dies") as suspect:
        workers(suspect)
        time.sleep(window_s)
        since_ns = home.tape.of("started")[0].at_ns
        count = sum(note.at_ns - since_ns <= window_s * 1e9 for note in home.tape.of("started"))
        code, ready = suspect.process.poll(), suspect.ready()
    end = "" if code is None else f", then exit {code}"
    says = {None: "", True: ", says it is ready", False: ", says it is not ready"}[ready]
    return f"{count} starts in {window_s} s{end}{says}"


def one_killed(bench: Bench, start: Start) -> str:
    """F8."""
    with bench.home() as home, started(start, home) as suspect:
        pids = workers(suspect)
        killed_ns = time.monotonic_ns()
        send_all(pids[:1], signal.SIGKILL)
        try:
            again = home.wait_for("started", len(pids) + 1, 20)[-1]
        except Unfit:
            return f"no other; {_ended(suspect, 0)}"
    return f"another ready in {_span((again.at_ns - killed_ns) / 1e9)}"


def stopped_early(bench: Bench, start: Start) -> str:
    """F9."""
    ends, longest_s, left = [], 0.0, 0
    for after_s in _EARLY_S[: bench.size(len(_EARLY_S), 2)]:
        with bench.home() as home, started(start, home) as suspect:
            seen = _watched(suspect, after_s)
            asked_s = time.monotonic()
            suspect.process.terminate()
            seen |= _watched(suspect, _STOP_S)
            longest_s = max(longest_s, time.monotonic() - asked_s)
            ends.append(str(suspect.process.poll()))
            left += sum(not is_dead(pid) for pid in seen)
            send_all(seen, signal.SIGKILL)
    codes = ", ".join(dict.fromkeys(ends)).replace("None", "never").replace("-", "−")
    return f"exit {codes} within {_span(longest_s)}, {left or 'no'} leftovers"


def stuck(bench: Bench, suspect: Suspect, pids: Sequence[int], *, how: str) -> str:
    """F4s, F4r."""
    return _fate(bench, suspect, suspect.stick(how))


def worker_stopped(bench: Bench, suspect: Suspect, pids: Sequence[int]) -> str:
    """F5."""
    send_all(pids[:1], signal.SIGSTOP)
    return _fate(bench, suspect, pids[0])


def stop_with_stuck(bench: Bench, suspect: Suspect, pids: Sequence[int], *, again: bool) -> str:
    """F6, whose suspects are started with a grace of ten seconds."""
    suspect.stick("sleeps")
    time.sleep(_SECOND_S)
    suspect.process.terminate()
    if again:
        _ended(suspect, _SECOND_S)
        suspect.process.terminate()
    return _ended(suspect, bench.size(_STOP_S, 3))


def paused(bench: Bench, suspect: Suspect, pids: Sequence[int], *, parent_first: bool) -> str:
    """F7, F7b."""
    parent, children = [suspect.process.pid], descendants(suspect.process.pid)
    send_all([*parent, *children], signal.SIGSTOP)
    time.sleep(bench.size(_PAUSE_S, 1))
    first, second = (parent, children) if parent_first else (children, parent)
    send_all(first, signal.SIGCONT)
    time.sleep(_BETWEEN_S)
    send_all(second, signal.SIGCONT)
    time.sleep(_AFTER_S)
    killed = sum(map(is_dead, pids))
    return f"{killed} of {len(pids)} workers killed"


def _fate(bench: Bench, suspect: Suspect, pid: int) -> str:
    """What becomes of a worker from now on, and what is said of it meanwhile."""
    cap_s, since_s = bench.size(_STUCK_S, 3), time.monotonic()
    said: dict[str, str] = {}  # in which words, and after how long for the first time
    while (for_s := time.monotonic() - since_s) < cap_s:
        if is_dead(pid):
            return "; ".join([*said.values(), f"killed after {_span(for_s)}"])
        if verdict := suspect.verdict(pid):
            said.setdefault(verdict, f"{verdict} after {_span(for_s)}")
        time.sleep(_ASK_S)
    return "; ".join([*said.values(), f"not replaced within {cap_s} s"])


def _watched(suspect: Suspect, for_s: float) -> set[int]:
    """All that descend from it during this time, or until it ends."""
    seen: set[int] = set()
    deadline = time.monotonic() + for_s
    while time.monotonic() < deadline and suspect.process.poll() is None:
        seen |= set(descendants(suspect.process.pid))
        time.sleep(_LOOK_S)
    return seen


def _ended(suspect: Suspect, within_s: float) -> str:
    since_s = time.monotonic()
    try:
        code = suspect.process.wait(within_s)
    except subprocess.TimeoutExpired:
        return f"has not ended after {within_s:.0f} s"
    return f"exit {code} after {_span(time.monotonic() - since_s)}"


def _span(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
