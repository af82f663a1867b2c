"""Steps that are not performed as written: what stands in for them, and a note of every call.

A fake takes the place of the function alone. The step keeps its name, retries, time limit and the form of its result,
and the arguments still have to fit the function, so a call that could not be made fails here as it would in earnest.

Which outcome of several comes next is counted by attempt, not by call: after a crash the same attempt is made again and
meets the same outcome.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.engine.current import Current
from pyrula_runtime.engine.program import StepCall
from pyrula_runtime.workflows.steps import Step

StepOrName = Callable[..., Any] | str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAttempt:
    """One call of a step's function, or of its fake. `number` counts the attempts of this step from 1."""

    run_id: str
    workflow: str
    step: str
    op_id: str
    number: int
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


class Attempts:
    """One outcome for each attempt of a step, in order; the last one for all further attempts."""

    def __init__(self, outcomes: tuple[Any, ...]) -> None:
        if not outcomes:
            raise UsageError("attempts() needs the outcome of the first attempt: attempts(TimeoutError(), 'a value')")
        self._outcomes = outcomes

    def of(self, number: int) -> Any:
        """The outcome of this attempt."""
        return self._outcomes[min(number, len(self._outcomes)) - 1]


def attempts(*outcomes: Any) -> Attempts:
    """A fake whose attempts end one after another in these ways; the last one is for all further attempts.

    An outcome is what a fake can be: a value, an exception to raise, or a function to call.
    `attempts(ConnectionError("no answer"), "receipt-17")` fails once and then gives a value.
    """
    return Attempts(outcomes)


class Fakes:
    """The fakes of one simulation. On the loop's thread, but for the functions of plain steps."""

    def __init__(self, fakes: Mapping[Any, Any], *, meets: Callable[[StepAttempt], None]) -> None:
        """`meets` hears of every attempt as it begins."""
        self._by_function: dict[Callable[..., Any], Any] = {}
        self._by_name: dict[str, Any] = {}
        self._meets = meets
        for step, fake in fakes.items():
            self.put(step, fake)

    def put(self, step: StepOrName, fake: Any) -> None:
        """Let this stand in for a step from now on."""
        if isinstance(step, str):
            self._by_name[step] = fake
        elif callable(step):
            self._by_function[_bare(step)] = fake
        else:
            raise UsageError(f"fakes are given for steps, by function or name, not for {step!r}")

    def applied(self, call: StepCall, whose: Callable[[], Current]) -> StepCall:
        """The call as it is to be performed; `whose` says, inside of it, which attempt it is."""
        function, args, kwargs = _parts(call.call)

        def began() -> Callable[[], Coroutine[Any, Any, Any]] | None:
            """Note the attempt; what stands in for it, if anything."""
            mine = whose()
            self._meets(
                StepAttempt(
                    run_id=mine.run_id,
                    workflow=mine.workflow,
                    step=mine.step,
                    op_id=mine.op_id,
                    number=mine.attempt,
                    args=args,
                    kwargs=kwargs,
                )
            )
            fake = self._fake(call.name, function)
            if fake is None:
                return None
            _check_arguments(function, args, kwargs)
            outcome = fake[0].of(mine.attempt) if isinstance(fake[0], Attempts) else fake[0]
            return lambda: _come_to_pass(outcome, args, kwargs)

        async def on_loop() -> Any:
            fake = began()
            if fake is not None:
                return await fake()
            return await call.call() if call.is_async else call.call()

        def in_thread() -> Any:
            fake = began()  # one that was put in since the step was begun
            return call.call() if fake is None else asyncio.run(fake())

        if call.is_async or self._fake(call.name, function) is not None:
            return replace(call, call=on_loop, is_async=True)
        return replace(call, call=in_thread)

    def _fake(self, name: str, function: Callable[..., Any]) -> tuple[Any] | None:
        """In a tuple, because a fake may be None."""
        bare = _bare(function)
        if bare in self._by_function:
            return (self._by_function[bare],)
        return (self._by_name[name],) if name in self._by_name else None


def _check_arguments(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Raise the TypeError of a call that could not be made."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # some functions written in C do not tell
        return
    signature.bind(*args, **kwargs)


async def _come_to_pass(outcome: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    if isinstance(outcome, BaseException):
        raise outcome.with_traceback(None)  # it may have been raised before
    if isinstance(outcome, type) and issubclass(outcome, BaseException):
        raise outcome
    if not callable(outcome):
        return outcome
    given = outcome(*args, **kwargs)
    return await given if inspect.isawaitable(given) else given


def _parts(call: Callable[[], Any]) -> tuple[Callable[..., Any], tuple[Any, ...], Mapping[str, Any]]:
    if isinstance(call, partial):
        return call.func, call.args, call.keywords
    return call, (), {}


def _bare(function: Callable[..., Any]) -> Callable[..., Any]:
    """What a step and its variants (other options, another instance of its class) have in common."""
    while isinstance(function, Step):
        function = function.function
    bare: Callable[..., Any] = getattr(function, "__func__", function)
    return bare
