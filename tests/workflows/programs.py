"""Random workflows for the replay tests: small trees of what bodies do, drawn by Hypothesis and run by a real body.

A step's name says what becomes of it: `ok…` gives its id, `bad…` fails, `flaky…` fails once before. Whatever the body
sees goes into its trace, in the order in which it sees it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from pyrula.workflows import StepFailed, WorkflowContext, step
from pyrula_runtime.engine.program import Program
from pyrula_runtime.workflows.programs import program_of
from pyrula_runtime.workflows.workflow import Workflow


@dataclass(frozen=True, slots=True)
class Node:
    """One thing that a body does: `kind` with a `name` (of a step, of what is read) and `parts`."""

    kind: str
    name: str = ""
    parts: tuple[Node, ...] = ()

    def __iter__(self) -> Iterator[Node]:
        """This node and all below it."""
        yield self
        for part in self.parts:
            yield from part

    def with_step(self, name: str, other: Node) -> Node:
        """The same tree with another node in place of the steps of this name."""
        if self.kind == "step" and self.name == name:
            return other
        return replace(self, parts=tuple(part.with_step(name, other) for part in self.parts))


NOTHING = Node("chain")


def work() -> str:
    """What a step would do; the tests play its outcome."""
    return ""


class Player:
    """Runs a tree as a workflow's body and keeps what it saw."""

    def __init__(self, tree: Node) -> None:
        self.trace: list[str] = []

        async def random_flow(ctx: WorkflowContext) -> list[str]:
            await self.play(tree, ctx)
            return self.trace

        self.program: Program = program_of(Workflow(random_flow))

    async def play(self, node: Node, ctx: WorkflowContext) -> None:
        """Do what the node says."""
        await self._acts[node.kind](self, node, ctx)

    def _asked(self, node: Node, ctx: WorkflowContext) -> Awaitable[Any]:
        """A step as an operation of this branch, anything else as a coroutine, which will be a task of its own."""
        return ctx.step(step(name=node.name)(work)) if node.kind == "step" else self.play(node, ctx)

    async def step(self, node: Node, ctx: WorkflowContext) -> None:
        self.trace.append(await ctx.step(step(name=node.name)(work)))

    async def read(self, node: Node, ctx: WorkflowContext) -> None:
        self.trace.append(str(getattr(ctx, node.name)()))

    async def chain(self, node: Node, ctx: WorkflowContext) -> None:
        for part in node.parts:
            await self.play(part, ctx)

    async def gather(self, node: Node, ctx: WorkflowContext) -> None:
        outcomes = await ctx.gather(*(self._asked(part, ctx) for part in node.parts))
        self.trace.append(str(outcomes))

    async def gather_all(self, node: Node, ctx: WorkflowContext) -> None:
        outcomes = await ctx.gather(*(self._asked(part, ctx) for part in node.parts), return_exceptions=True)
        self.trace.append(str(outcomes))

    async def group(self, node: Node, ctx: WorkflowContext) -> None:
        async with asyncio.TaskGroup() as tasks:
            for part in node.parts:
                tasks.create_task(self.play(part, ctx))

    async def attempt(self, node: Node, ctx: WorkflowContext) -> None:
        """A failure is seen and got over."""
        try:
            await self.chain(node, ctx)
        except StepFailed as failed:
            self.trace.append(f"caught {failed}")
        except ExceptionGroup as failed:
            self.trace.append(f"caught {[str(error) for error in failed.exceptions]}")

    async def race(self, node: Node, ctx: WorkflowContext) -> None:
        """The first part to end ends the others."""
        tasks = [asyncio.ensure_future(self._asked(part, ctx)) for part in node.parts]
        try:
            done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            self.trace.append(f"won {[[tasks.index(each) for each in found] for found in (done, rest)]}")
        finally:
            for task in tasks:
                task.cancel()
            self.trace.append(
                str([type(each).__name__ for each in await asyncio.gather(*tasks, return_exceptions=True)])
            )

    async def give_up(self, node: Node, ctx: WorkflowContext) -> None:
        """A step is asked for and cancelled when the parts are done."""
        operation = ctx.step(step(name=node.name)(work))
        await self.chain(node, ctx)
        self.trace.append(f"gave up {operation.cancel()}")
        with contextlib.suppress(asyncio.CancelledError, StepFailed):
            self.trace.append(await operation)

    async def compensate(self, node: Node, ctx: WorkflowContext) -> None:
        """A cancel is answered with a step."""
        try:
            await self.chain(node, ctx)
        except asyncio.CancelledError:
            self.trace.append(await ctx.step(step(name="ok undo")(work)))
            raise

    _acts: dict[str, Callable[[Player, Node, WorkflowContext], Awaitable[None]]] = {  # noqa: RUF012 - never changed
        "step": step,
        "read": read,
        "chain": chain,
        "gather": gather,
        "gather_all": gather_all,
        "group": group,
        "attempt": attempt,
        "race": race,
        "give_up": give_up,
        "compensate": compensate,
    }


STEP_NAMES = ("ok a", "ok b", "bad c", "flaky d")
BRANCHING = ("chain", "gather", "gather_all", "group", "attempt", "race", "compensate")

leaves = st.one_of(
    st.sampled_from(STEP_NAMES).map(lambda name: Node("step", name)),
    st.sampled_from(("uuid4", "random", "now")).map(lambda name: Node("read", name)),
)


def _nest(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    parts = st.lists(inner, min_size=1, max_size=4).map(tuple)
    return st.one_of(
        st.builds(Node, kind=st.sampled_from(BRANCHING), parts=parts),
        st.builds(Node, kind=st.just("give_up"), name=st.sampled_from(STEP_NAMES), parts=parts),
    )


trees = st.recursive(leaves, _nest, max_leaves=12)


def uniquely_named(tree: Node) -> Node:
    """The same tree in which every step has a name of its own."""
    numbers = iter(range(1_000_000))

    def named(node: Node) -> Node:
        name = f"{node.name} {next(numbers)}" if node.kind in ("step", "give_up") else node.name
        return replace(node, name=name, parts=tuple(map(named, node.parts)))

    return named(tree)
