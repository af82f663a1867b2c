"""An app of the usual weight: it imports openai, httpx and pydantic, and its one workflow uses all three."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from pathlib import Path

import httpx
import openai  # type: ignore[import-not-found]
import pydantic

from benchmarks.tape import VARIABLE, Pen
from pyrula.workflows import WorkflowContext, step, workflow

_MODELS = 60
_LOOK_S = 0.01


def _model(number: int) -> type[pydantic.BaseModel]:
    fields = {f"field_{n}": (int | str | list[float] | None, None) for n in range(10)}
    return pydantic.create_model(f"Model{number}", **fields)  # type: ignore[call-overload, no-any-return]


MODELS = [_model(number) for number in range(_MODELS)]


async def _used() -> None:
    async with httpx.AsyncClient(), openai.AsyncOpenAI(api_key="none"):
        for model in MODELS:
            model.model_validate({"field_0": 1, "field_1": "one", "field_2": [1.5]}).model_dump_json()


def warm() -> None:
    """For `--warmup`: have done once, before the fork, what every worker does."""
    asyncio.run(_used())


@step
async def exercise() -> None:
    """Make both clients, validate and dump with every model."""
    await _used()


@step
async def collect() -> None:
    """Collect all garbage."""
    gc.collect()


@step
def meet(key: str) -> None:
    """Wait until `key` of the form `what-count` was reached by so many processes, each once."""
    what, _, count = key.rpartition("-")
    place = Path(f"{os.environ[VARIABLE]}.{what}")
    place.mkdir(exist_ok=True)
    (place / str(os.getpid())).touch()
    while len(os.listdir(place)) < int(count):
        time.sleep(_LOOK_S)


@workflow(name="turn")
async def turn(ctx: WorkflowContext, key: str) -> None:
    """One turn in each worker; the first one to be done waits for the others."""
    await ctx.step(exercise)
    await ctx.step(meet, key)
    Pen().note("turn", key)


@workflow(name="tidy")
async def tidy(ctx: WorkflowContext, key: str) -> None:
    """One full collection in each worker."""
    await ctx.step(collect)
    await ctx.step(meet, key)
    Pen().note("tidy", key)
