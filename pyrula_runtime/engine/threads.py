"""Threads for user code, so many at a time; one whose work was given up does not count any more.

Plain code in a thread cannot be ended from outside. When its step has timed out, was cancelled, or lost its run, the
thread may stay in user code for long or for ever; if it kept its place, a few such steps would keep every other run of
the worker from having a thread at all. So giving work up frees its place at once: another thread may start, and the old
one ends when its code returns. How many linger is up to the user's code; the log tells.

The threads are daemons: what hangs in user code keeps no process alive.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from pyrula_runtime import kernel

log = logging.getLogger("pyrula.lane")


class Job(Future[Any]):
    """Work for a thread, from its submission to its end."""

    def __init__(self, threads: Threads, work: Callable[[], Any]) -> None:
        super().__init__()
        self._threads = threads
        self._work = work

    def give_up(self) -> None:
        """Nobody waits for it any more: it does not begin, or if it has begun, its thread counts no more."""
        if not self.cancel():
            self._threads.discount(self)

    def perform(self) -> None:
        """Do the work, in the calling thread, unless it was given up before."""
        if not self.set_running_or_notify_cancel():
            return
        try:
            value = self._work()
        except BaseException as error:  # noqa: BLE001 - whatever user code raises goes to whoever waits for it
            self.set_exception(error)
        else:
            self.set_result(value)


class Threads:
    """At most `at_once` threads that count, started when they are needed. Thread-safe."""

    def __init__(self, at_once: int, name: str) -> None:
        self._at_once = at_once
        self._name = name
        self._waiting: deque[Job] = deque()
        self._given_up: set[Job] = set()
        self._counted = 0
        self._idle = 0
        self._is_over = False
        self._news = threading.Condition()

    def submit(self, work: Callable[[], Any]) -> Job:
        """Do this work in a thread, as soon as one is free; after `shutdown` it is cancelled at once."""
        job = Job(self, work)
        with self._news:
            if self._is_over:
                job.cancel()
                return job
            self._waiting.append(job)
            self._find_thread()
        return job

    def discount(self, job: Job) -> None:
        """Let another thread start in the place of the one that does this."""
        with self._news:
            if job.done() or job in self._given_up:
                return
            self._given_up.add(job)
            self._counted -= 1
            log.info("%d threads (%s) still run code that was given up", len(self._given_up), self._name)
            self._find_thread()

    def told(self, job: Job) -> None:
        """Whoever waits for this has been told of its end, by the thread that did it; for those who watch."""

    def shutdown(self) -> None:
        """Begin nothing any more; what runs is left to itself."""
        with self._news:
            self._is_over = True
            while self._waiting:
                self._waiting.popleft().cancel()
            self._news.notify_all()

    def _find_thread(self) -> None:
        if self._idle >= len(self._waiting):
            self._news.notify()
        elif self._counted < self._at_once:
            self._counted += 1
            threading.Thread(target=self._work, name=self._name, daemon=True).start()

    @kernel.signal_stack()
    def _work(self) -> None:
        while (job := self._next()) is not None:
            job.perform()
            self.told(job)
            if not self._keeps_its_place(job):
                return
            del job  # an idle thread would keep it, and with it the whole run that it was for

    def _next(self) -> Job | None:
        with self._news:
            self._idle += 1
            while not self._waiting and not self._is_over:
                self._news.wait()
            self._idle -= 1
            return self._waiting.popleft() if self._waiting else None

    def _keeps_its_place(self, job: Job) -> bool:
        with self._news:
            was_given_up = job in self._given_up
            self._given_up.discard(job)
            return not was_given_up
