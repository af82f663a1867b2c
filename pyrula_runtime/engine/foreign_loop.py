"""Says why a step fails when it uses what belongs to another event loop, which its own error does not.

Where turns have loops of their own, a client, a lock or a pool in a module's global works for the first turn that uses
it, and fails in the next with "... is bound to a different event loop" or "Event loop is closed", from somewhere deep
in a library. The traceback leads through the user's functions; what they name, and what is of a kind that keeps its
loop, is most likely it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from types import BuiltinFunctionType, FrameType, FunctionType, ModuleType
from typing import Any

from pyrula_runtime.users_code import is_users

# how asyncio, anyio and what is built on them say it
_WORDINGS = (
    "bound to a different event loop",
    "attached to a different loop",
    "belongs to a different loop",
    "event loop is closed",
)
# packages whose objects keep the loop that they were first used on
_KEEP_LOOPS = frozenset(
    {"_asyncio", "anyio", "asyncio"}
    | {"aiobotocore", "aiohttp", "aiokafka", "aiormq", "grpc", "httpcore", "httpx", "nats", "websockets"}
    | {"asyncpg", "elasticsearch", "motor", "psycopg", "psycopg_pool", "pymongo", "redis", "sqlalchemy", "valkey"}
    | {"anthropic", "google", "openai"}
)
_NO_OBJECTS = (type, ModuleType, FunctionType, BuiltinFunctionType)


def explained(call: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    """The same call, whose error has a note if it is about event loops."""

    async def calls() -> Any:
        try:
            return await call()
        except Exception as error:
            if _is_about_loops(error):
                error.add_note(_note(error))
            raise

    return calls


def _is_about_loops(error: BaseException) -> bool:
    said = (str(each).lower() for each in _chain(error) if isinstance(each, RuntimeError | ValueError))
    return any(wording in sentence for sentence in said for wording in _WORDINGS)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and those it came from: clients wrap what their transport raised."""
    seen: list[BaseException] = []
    each: BaseException | None = error
    while each is not None and each not in seen:
        seen.append(each)
        yield each
        each = each.__cause__ or each.__context__


def _note(error: BaseException) -> str:
    suspects = list(
        dict.fromkeys(found for each in _chain(error) for frame in _frames(each) for found in _named(frame))
    )
    which = f"most likely {' or '.join(suspects)}" if suspects else "most likely a global"
    return (
        'In this worker turns have event loops of their own (isolation="turn"), and this step used what belongs to the '
        f"loop of another turn, {which}. Make it with lane_local(...) of pyrula.workflows, which gives one to each "
        'loop, or run the workflows that share it with isolation="lane".'
    )


def _frames(error: BaseException) -> Iterator[FrameType]:
    """The user's own frames, the innermost first."""
    frames = []
    step = error.__traceback__
    while step is not None:
        frames.append(step.tb_frame)
        step = step.tb_next
    for frame in reversed(frames):
        name = frame.f_code.co_filename
        if is_users(name) and "site-packages" not in name:
            yield frame


def _named(frame: FrameType) -> Iterator[str]:
    """What the code of this frame names and keeps a loop, in words."""
    code, module = frame.f_code, frame.f_globals.get("__name__", "?")
    for name, value in _looked_up(code.co_names, frame.f_globals):
        yield from (f"{module}.{path}" for path in _paths(name, value))
    for name, value in _looked_up(code.co_freevars, frame.f_locals):
        yield from (f"{path} around {code.co_name}()" for path in _paths(name, value))


def _looked_up(names: tuple[str, ...], where: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    return ((name, where[name]) for name in names if name in where)


def _paths(name: str, value: object) -> Iterator[str]:
    """The name if its value keeps a loop, else those of its attributes that do."""
    if isinstance(value, _NO_OBJECTS):
        return
    if _keeps_loop(value):
        yield name
        return
    for attribute, part in getattr(value, "__dict__", {}).items():
        if not isinstance(part, _NO_OBJECTS) and _keeps_loop(part):
            yield f"{name}.{attribute}"


def _keeps_loop(value: object) -> bool:
    return type(value).__module__.partition(".")[0] in _KEEP_LOOPS
