"""The connection of one event loop: many callers' commands in one write, replies matched in order, nothing repeated.

Everything that is called in one turn of the loop goes out together; that is the group commit, and the reason why fifty
awaits cost one system call here and one flush of the append-only file there. Replies are taken a few in each turn, so
that whoever has an answer goes on while the rest is taken: else runs that once began together would step together for
ever, and wait together. A caller that leaves takes its future along, not its command. When the connection breaks, or
owes an answer for too long, every call under way hears StoreUnavailable: nobody knows what became of it, and the
contract says how it is repeated.

The one thing sent again is a call that the server did not run because it does not know the script. Calls are in order,
so from the first such reply on nothing younger is sent until all that is under way has been answered; then those that
were not run go out again with the script's text, in their order, and what has gathered meanwhile behind them.

All of it happens on the lane's own loop, except `shut`, which any thread may call, and in an empty context: a call may
come out of a workflow's body, and what the lane does for it, a timer say, must not pass for the body's.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from typing import Any

import hiredis

from pyrula_runtime.core.errors import PyrulaError, StoreUnavailable
from pyrula_runtime.stores.valkey import failures
from pyrula_runtime.stores.valkey.connection import (
    NOT_NOW,
    NOTHING,
    Argument,
    Connection,
    Outcome,
    pack,
    reach,
)
from pyrula_runtime.stores.valkey.route import Node, Route
from pyrula_runtime.stores.valkey.scripts import Script
from pyrula_runtime.stores.valkey.settings import Settings

log = logging.getLogger(__name__)
_READ_BYTES = 262_144
# replies taken in one turn of the loop: fewer make more turns, more let fifty runs begin at once that wait alike
_TAKEN_AT_ONCE = 8
OPENS = "begin"  # the script whose refusal is the operator's to hear; who is at work already waits for better times


@dataclass(slots=True, eq=False)
class Call:
    """A script to be run; `told` makes the verb's answer of the reply."""

    script: Script
    tag: str
    args: tuple[Argument, ...]
    future: asyncio.Future[Any]
    told: Callable[[Any], Any]
    with_text: bool = False
    reply: Any = NOTHING  # while a replica has not confirmed it

    def packed(self) -> bytes:
        """The call as the server reads it."""
        how, what = (b"EVAL", self.script.text) if self.with_text else (b"EVALSHA", self.script.sha)
        return pack((how, what, 1, self.tag, *self.args))

    def answer(self, reply: Any) -> None:
        """Settle the caller's future, unless it has gone."""
        if self.future.done():
            return
        try:
            self.future.set_result(self.told(reply))
        except Exception as error:  # noqa: BLE001 - a refusal, or a bug in one answer, is its caller's to hear
            self.future.set_exception(error)

    def fail(self, error: PyrulaError) -> None:
        """Tell the caller that it did not work."""
        if not self.future.done():
            self.future.set_exception(error)


@dataclass(slots=True, eq=False)
class Barrier:
    """Asks after a batch how many replicas have it; with the strict profile nothing is answered before."""

    calls: list[Call]


class Lane:
    """One connection, made with the first call and again with the first call after it broke."""

    def __init__(self, route: Route, settings: Settings, node: Node | None = None) -> None:
        self._route, self._settings, self._node = route, settings, node
        self.loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._replicas = 0  # that must have what is written here before it is answered
        self._connecting = self._finished = False
        self._waiting: list[Call] = []  # to be sent
        self._under_way: deque[Call | Barrier] = deque()  # sent and not answered
        self._unsent: list[Call] = []  # answered that they were not run
        self._out = bytearray()  # what the socket did not take yet
        self._flush_due = False
        self._watch: asyncio.TimerHandle | None = None
        self._pause_s = 0.0
        self._heard_s = 0.0
        self._idle = asyncio.Event()

    def call(self, call: Call) -> None:
        """Queue a call; it goes out at the end of this turn of the loop."""
        self._waiting.append(call)
        if not self._flush_due:
            self._flush_due = True
            self.loop.call_soon(self._flush, context=Context())

    def _flush(self) -> None:
        self._flush_due = False
        if self._connection is None:
            self._begin_to_connect()
            if self._waiting:
                self._be_patient(self._settings.answer_s)
        elif self._waiting and not self._unsent:
            calls, self._waiting = self._waiting, []
            if not self._under_way:
                self._heard_s = self.loop.time()
            self._under_way.extend(calls)
            self._out += b"".join([call.packed() for call in calls])
            if self._replicas:
                self._under_way.append(Barrier(calls))
                self._out += pack(("WAIT", self._replicas, self._settings.confirm_ms))
            self._send()
            self._be_patient(self._settings.answer_s)

    def _begin_to_connect(self) -> None:
        if self._waiting and not self._connecting and not self._finished:
            self._connecting = True
            self.loop.call_later(self._pause_s, self._reach, context=Context())

    def _reach(self) -> None:
        reach(self.loop, lambda: self._route.connect("pyrula", self._node), self._reached)

    def _reached(self, outcome: Outcome) -> None:
        self._connecting = False
        self._lose_patience()
        if isinstance(outcome, PyrulaError):
            self._pause_s = min(max(self._settings.again_s, self._pause_s * 2), self._settings.again_most_s)
            self._fail_all(failures.for_now(outcome))
        elif self._finished:
            outcome.socket.close()
        else:
            self._adopt(outcome)

    def _adopt(self, made: Connection) -> None:
        """Go on with a fresh connection."""
        made.socket.setblocking(False)
        self._connection, self._replicas = made, self._route.replicas_of(self._node)
        Context().run(self.loop.add_reader, made.socket, self._readable)
        self._flush()

    def adopt(self, made: Connection) -> None:
        """Take a connection that was made to look at the server."""
        if self._connection is not None or self._connecting:
            made.socket.close()
        else:
            self._adopt(made)

    # out

    def _send(self) -> None:
        assert self._connection is not None
        try:
            while self._out:
                sent = self._connection.socket.send(self._out)
                del self._out[:sent]
        except NOT_NOW:
            self.loop.add_writer(self._connection.socket, self._writable)
        except OSError as error:
            self._break(str(error))

    def _writable(self) -> None:
        assert self._connection is not None
        self.loop.remove_writer(self._connection.socket)
        self._send()

    # in

    def _readable(self) -> None:
        connection = self._connection
        if connection is None:
            return
        try:
            while some := connection.socket.recv(_READ_BYTES):
                connection.replies.feed(some)
                self._heard_s = self.loop.time()
                if len(some) < _READ_BYTES and not _pending(connection.socket):
                    break
            else:
                self._lose(connection, "the server closed it")
                return
        except NOT_NOW:
            pass  # all that has come is with the parser
        except OSError as error:
            self._lose(connection, str(error))
            return
        self._settle(connection)

    def _lose(self, connection: Connection, why: str) -> None:
        """Nothing more comes: take what has come, then give the connection up."""
        self._settle_all(connection)
        if self._connection is connection:
            self._break(why)

    def _settle_all(self, connection: Connection) -> None:
        """Take all that has come: there may be no next turn for the rest."""
        self._settle(connection, len(self._under_way) + 1)

    def _settle(self, connection: Connection, at_once: int = _TAKEN_AT_ONCE) -> None:
        if self._connection is not connection:
            return
        try:
            for _ in range(at_once):
                if (reply := connection.replies.gets()) is NOTHING:
                    break
                self._take(reply)
            else:
                self.loop.call_soon(self._settle, connection, context=Context())
                return
        except (hiredis.ProtocolError, IndexError) as error:
            self._break(f"it sent what is no reply: {error}")
            return
        if self._connection is not connection:
            return
        if not self._under_way:
            self._all_answered()

    def _take(self, reply: Any) -> None:
        call = self._under_way.popleft()
        if isinstance(call, Barrier):
            self._confirm(call.calls, reply)
            return
        if not isinstance(reply, hiredis.ReplyError):
            self._pause_s = 0.0
            if self._replicas:
                call.reply = reply
            else:
                call.answer(reply)
            return
        code = failures.code_of(reply)
        if code == failures.UNSENT and not call.with_text:
            call.with_text = True
            self._unsent.append(call)
            return
        if code == failures.MOVED:
            self._route.moved(str(reply))
        error = failures.ours(reply, self._route.place)
        call.fail(error if call.script.name == OPENS else failures.for_now(error))
        if code in failures.HANGS_UP:
            self._break(str(reply))

    def _confirm(self, calls: list[Call], replicas: Any) -> None:
        """Answer a batch that enough replicas have; of any other nobody knows whether it would survive."""
        is_safe = isinstance(replicas, int) and replicas >= self._replicas
        for call in calls:
            if call.reply is NOTHING:
                continue  # refused, or to be sent again
            if is_safe:
                call.answer(call.reply)
            else:
                call.fail(failures.unconfirmed(self._route.place, self._replicas))

    def _all_answered(self) -> None:
        if self._unsent:
            # the first carries the text of its script; who comes after it in the same write finds it there
            self._waiting[:0] = self._unsent
            self._unsent = []
        if self._waiting:
            self._flush()
        else:
            self._idle.set()

    # the end of patience and of connections

    def _be_patient(self, for_s: float) -> None:
        if self._watch is None:
            self._watch = self.loop.call_later(for_s, self._look, context=Context())

    def _lose_patience(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def _look(self) -> None:
        """See whether the server still answers."""
        self._watch = None
        self._readable()  # if this loop was blocked, the answers are here and nobody is to blame
        if self._connection is not None:
            self._settle_all(self._connection)
        if self._connection is None:
            # a name that is looked up, a cluster whose nodes are asked one after the other: that takes its time
            self._fail_all(failures.gone(self._route.place, f"no connection within {self._settings.answer_s:g} s"))
        elif self._under_way:
            left_s = self._heard_s + self._settings.answer_s - self.loop.time()
            if left_s <= 0:
                self._break(f"no answer for {self._settings.answer_s:g} s")
            else:
                self._be_patient(left_s)

    def _break(self, why: str) -> None:
        """Give the connection up; whatever is under way has an unknown fate."""
        if self._connection is not None:
            self._let_go(self._connection)
        if self._under_way or self._unsent:
            log.warning("the connection to the store at %s broke: %s", self._route.place, why)
        self._fail_all(failures.gone(self._route.place, why))

    def _let_go(self, connection: Connection) -> None:
        self._connection = None
        self.loop.remove_reader(connection.socket)
        self.loop.remove_writer(connection.socket)
        connection.socket.close()
        self._out.clear()
        self._lose_patience()

    def _fail_all(self, error: PyrulaError) -> None:
        calls = [*self._unsent, *self._waiting]
        for sent in self._under_way:
            calls += sent.calls if isinstance(sent, Barrier) else [sent]
        self._under_way.clear()
        self._unsent, self._waiting = [], []
        for call in calls:
            call.fail(type(error)(*error.args))
        self._idle.set()

    async def finish(self) -> None:
        """Wait for the answers to all calls made so far, then hang up."""
        if self._waiting or self._under_way or self._unsent or self._connecting:
            self._idle.clear()
            try:
                await asyncio.wait_for(self._idle.wait(), self._settings.close_s)
            except TimeoutError:
                log.warning("the store at %s did not answer in time to a close", self._route.place)
        self._finished = True
        if self._connection is not None:
            self._let_go(self._connection)
        self._fail_all(StoreUnavailable(f"the store at {self._route.place} was closed before it answered"))

    def shut(self) -> None:
        """Hang up at once, from another thread, when the lane's loop has stopped or does not come to it."""
        connection = self._connection
        if connection is None:
            return
        if not self.loop.is_running():
            self._let_go(connection)
            return
        try:
            connection.socket.shutdown(socket.SHUT_RDWR)  # the loop notices when it turns again
        except OSError:
            return  # it is broken already


def _pending(connected: socket.socket) -> bool:
    """Whether TLS keeps bytes that the kernel does not tell of."""
    pending = getattr(connected, "pending", None)
    return pending is not None and pending() > 0
