"""A real process with a black box, a watchdog's beat, and code of a run on its lane; and an observer of it."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent, indent

from pyrula_runtime.blackbox import Executing, Peephole
from pyrula_runtime.blackbox.layout import box_path
from pyrula_runtime.core.standstill import NOT_STUCK, Sample, Stuck, ThreadSample, Verdict, gil_holder
from pyrula_runtime.engine.presence import mono_ms
from pyrula_runtime.looking import Onlooker

ROOT = Path(__file__).parents[2]
# how far two looks are apart: long enough for the kernel's figures to mean something
_APART_S = 0.3
_PROGRAM = """
import ctypes, gc, os, re, sys, threading, time
sys.path.insert(0, {root!r})
from pathlib import Path
from pyrula_runtime.blackbox import BlackBox, Place
from pyrula_runtime.engine.watchdog import _Collections

sys.setswitchinterval(0.001)
box = BlackBox.create(Path({folder!r}), incarnation="i", worker_id="w", store_identity="s", now_ms=1)
box.lane_thread(threading.get_native_id())
_Collections(box).note()
place = Place(run_id="R", workflow="flow", step="guilty")
in_thread = Place(run_id="T", workflow="flow", step="guilty")

def beat():
    box.watch_thread(threading.get_native_id())
    while True:
        box.beat_watch(time.monotonic_ns() // 1_000_000)
        time.sleep(0.1)

def on_lane(act, *args):
    box.enter_lane(place, time.monotonic_ns())
    act(*args)
    box.leave_lane()

def on_thread(act, *args):
    def work():
        box.enter_thread(in_thread, time.monotonic_ns())
        act(*args)
    threading.Thread(target=work, daemon=True).start()

def spin():
    while True:
        pass

def regex():
    re.match("(a+)+b", "a" * 64)

threading.Thread(target=beat, daemon=True).start()
print("on", flush=True)
{code}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one look has brought."""

    verdict: Verdict
    stuck: Stuck
    holder: int | None


class Standing:
    """Such a process, under observation."""

    def __init__(self, folder: Path, code: str) -> None:
        text = _PROGRAM.format(root=str(ROOT), folder=str(folder), code=indent(dedent(code).strip(), ""))
        self.process = subprocess.Popen(
            [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.process.stdout.readline()
        peephole = Peephole.open(box_path(folder, "i"))
        assert peephole is not None
        self.peephole = peephole
        self.pid = self.process.pid
        self._onlooker = Onlooker(self.pid)
        self._stuck = NOT_STUCK
        self._before = self._sample()
        self._threads = self._onlooker.threads()

    def look(self) -> Look:
        """The verdict on the time since the last look."""
        with suppress(subprocess.TimeoutExpired):  # what is looked at is what it does meanwhile
            self.process.wait(_APART_S)
        after, threads = self._sample(), self._onlooker.threads()
        both: dict[int, tuple[ThreadSample, ThreadSample]] = {
            each: (self._threads[each], threads[each]) for each in threads.keys() & self._threads.keys()
        }
        holder = gil_holder(after.at_ms - self._before.at_ms, both)
        named = next((span for span in self.peephole.threads() or () if span.thread == holder), None)
        self._stuck = self._stuck.then(self._before, after, (named.run_id, named.entries) if named else None)
        self._before, self._threads = after, threads
        return Look(verdict=self._stuck.verdict, stuck=self._stuck, holder=holder)

    def until(self, verdict: Verdict) -> Look:
        """Look until the verdict is that."""
        while (seen := self.look()).verdict is not verdict:
            assert self.process.poll() is None
        return seen

    def end(self) -> None:
        """Kill it."""
        self.peephole.close()
        self.process.kill()
        self.process.communicate()

    def _sample(self) -> Sample:
        glance, at_ms = self.peephole.look(), mono_ms()
        lane = glance.lane if isinstance(glance.lane, Executing) else None
        return Sample(
            at_ms=at_ms,
            watch_beat_ms=glance.watch_beat_ms,
            run_id=lane.run_id if lane else "",
            entries=lane.entries if lane else 0,
            since_ms=lane.since_ms if lane else 0,
            gc_since_ms=glance.gc_since_ms or 0,
            gc_total_ms=glance.gc_total_ms or 0,
            lane=self._onlooker.thread(glance.lane_thread or 0),
            watch=self._onlooker.thread(glance.watch_thread or 0),
            frozen=self._onlooker.is_frozen(glance.lane_thread or 0),
        )
