"""What can be defined as a workflow or a step, and the sentences that refuse the rest."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from pyrula.workflows import Retry, SyncWorkflowContext, UsageError, WorkflowContext, step, workflow
from pyrula_runtime.workflows.programs import program_of
from pyrula_runtime.workflows.registry import REGISTRY, Registry
from pyrula_runtime.workflows.steps import _step_of_function, step_call
from pyrula_runtime.workflows.workflow import Workflow

if TYPE_CHECKING:
    from decimal import Decimal as OnlyForCheckers


async def flow(ctx: WorkflowContext) -> None: ...


def plain(ctx: SyncWorkflowContext) -> None: ...


def unannotated(ctx, amount=3):  # type: ignore[no-untyped-def]  # noqa: ANN001
    return amount


async def yields(ctx: WorkflowContext) -> AsyncIterator[int]:
    yield 1


def yields_plainly(ctx: SyncWorkflowContext) -> Iterator[int]:
    yield 1


async def without_context() -> None: ...


async def only_keywords(*, ctx: WorkflowContext) -> None: ...


async def any_number(ctx: WorkflowContext, *names: str) -> None: ...


async def any_names(ctx: WorkflowContext, **names: str) -> None: ...


async def wrong_context(ctx: SyncWorkflowContext) -> None: ...


def wrong_plain_context(ctx: WorkflowContext) -> None: ...


async def unknown_parameter(ctx: WorkflowContext, price: OnlyForCheckers) -> None: ...


async def unknown_result(ctx: WorkflowContext) -> OnlyForCheckers | None: ...


def made(function: Callable[..., Any], **options: Any) -> Workflow[..., Any, Any]:
    return Workflow(function, **options)


@pytest.mark.parametrize(
    ("function", "options", "reason"),
    [
        (lambda ctx: None, {}, "needs a function with a name"),
        (functools.partial(flow), {}, "goes on a function"),
        (int, {}, "goes on a function"),
        (yields, {}, "return a list instead"),
        (yields_plainly, {}, "return a list instead"),
        (without_context, {}, "must take the context first"),
        (only_keywords, {}, "must take the context first"),
        (any_number, {}, r"\*names cannot be filled"),
        (any_names, {}, r"\*\*names cannot be filled"),
        (wrong_context, {}, "async def gets a WorkflowContext, not a SyncWorkflowContext"),
        (wrong_plain_context, {}, "def gets a SyncWorkflowContext, not a WorkflowContext"),
        (flow, {"name": ""}, "workflow name '' must be"),
        (flow, {"name": "a/b"}, "workflow name 'a/b' must be"),
        (flow, {"name": 3}, "workflow name 3 must be"),
        (flow, {"version": ""}, "version='' must be text"),
        (flow, {"version": 3}, "version=3 must be text"),
        (flow, {"timeout": 0}, "timeout=0 must be a number of seconds above 0"),
        (flow, {"timeout": math.inf}, "timeout=inf must be"),
        (flow, {"timeout": True}, "timeout=True must be"),
        (flow, {"isolation": "run"}, "workflow 'flow': isolation='run' must be \"lane\" or \"turn\""),
        (plain, {"isolation": "turn"}, "isolation='turn' is for async def workflows; a plain def has a thread anyway"),
    ],
)
def test_what_is_no_workflow(function: Any, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        made(function, **options)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (unknown_parameter, "parameter 'price' of workflow 'unknown_parameter' is annotated OnlyForCheckers"),
        (unknown_result, "the result of workflow 'unknown_result' is annotated OnlyForCheckers . None"),
    ],
)
def test_an_annotation_that_means_nothing_is_found_before_any_run(function: Any, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        program_of(made(function))


def test_what_a_workflow_is_made_of() -> None:
    defined = made(flow, name="order.v2", version="7", timeout=3)
    program = program_of(defined)
    assert (program.name, program.version, program.timeout_s, program.run) == ("order.v2", "7", 3.0, None)
    assert program.start is not None
    assert program_of(made(plain)).start is None
    assert program_of(made(plain)).run is not None
    assert repr(defined) == "<workflow 'order.v2'>"
    assert made(unannotated).function(None) == 3
    assert defined.__wrapped__ is flow


def test_two_workflows_of_one_name_are_refused() -> None:
    registry = Registry()
    registry.add(made(flow, name="same"))
    with pytest.raises(UsageError, match=r"'same': .*test_definitions\.flow \(.*\.py:\d+\) and .*\.plain \("):
        registry.add(made(plain, name="same"))


def test_a_workflow_may_be_defined_again_by_a_re_import() -> None:
    registry = Registry()
    registry.add(made(flow))
    again = made(flow)
    registry.add(again)
    assert list(registry) == [again]
    assert "flow" in registry
    assert "other" not in registry


def test_a_script_and_its_import_as_a_module_are_one() -> None:
    registry = Registry()
    registry.add(made(flow))
    main: dict[str, Any] = {"__name__": "__main__"}
    exec(compile("async def flow(ctx): ...", made(flow).function.__code__.co_filename, "exec"), main)
    registry.add(made(main["flow"]))


def test_the_decorator_registers_in_the_process() -> None:
    @workflow(name="registered here")
    async def local(ctx: WorkflowContext) -> None: ...

    assert local in list(REGISTRY)


# steps


async def charge(amount: int) -> int:
    return amount


class Account:
    @step
    def pay(self, amount: int) -> str:
        return f"paid {amount}"

    def look(self) -> int:
        return 7

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return self is other


class Asynchronous:
    __name__ = "asynchronous"

    async def __call__(self) -> int:
        return 1


class Nameless:
    def __call__(self) -> int:
        return 1


def test_a_step_has_the_functions_name_and_policy() -> None:
    made = step(retry=3, timeout=2)(charge)
    call = step_call(made, (5,), {})
    assert (call.name, call.is_async, call.retry, call.timeout_s) == ("charge", True, Retry(attempts=3), 2.0)
    assert (made.__name__, made.__wrapped__) == ("charge", charge)
    assert repr(made) == "<step 'charge'>"


def test_options_at_the_call_change_what_is_given() -> None:
    made = step(retry=3, timeout=2)(charge)
    other = made.with_options(name="charge again", retry=Retry(attempts=5))
    assert (other.name, other.retry.attempts, other.timeout_s) == ("charge again", 5, 2.0)
    assert made.with_options(timeout=9).name == "charge"
    assert (made.name, made.retry.attempts) == ("charge", 3)


def test_methods_are_steps_of_their_instance() -> None:
    account = Account()
    assert step_call(account.pay, (3,), {}).call() == "paid 3"
    assert step_call(account.look, (), {}).call() == 7
    assert Account.pay.name == "pay"
    assert account.pay.with_options(name="give").name == "give"


def test_plain_functions_and_named_callables_are_steps() -> None:
    assert step_call(charge, (), {"amount": 1}).name == "charge"
    assert step_call(time.time, (), {}).name == "time"
    call = step_call(Asynchronous(), (), {})
    assert (call.name, call.is_async) == ("asynchronous", True)


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (lambda: step_call(lambda: 1, (), {}), "needs a function with a name"),
        (lambda: step_call(functools.partial(charge, 1), (), {}), "needs a function with a name"),
        (lambda: step_call(Nameless(), (), {}), "needs a function with a name"),
        (lambda: step_call(charge(1), (), {}), r"ctx.step\(charge, ...\)"),  # type: ignore[arg-type]
        (lambda: step_call(5, (), {}), "must be a function, not 5"),  # type: ignore[arg-type]
        (lambda: step_call(yields, (), {}), "return a list instead"),
        (lambda: step_call(made(flow), (), {}), "is no step: a workflow is submitted"),
        (lambda: step(step(charge)), r"is a step already; use its with_options"),
        (lambda: step(name="a/b")(charge), "step name 'a/b' must be"),
        (lambda: step(name="")(charge), "step name '' must be"),
        (lambda: step(retry=0)(charge), "tried at least once"),
        (lambda: step(retry=True)(charge), "retry=True must be a Retry"),
        (lambda: step(retry="3")(charge), "retry='3' must be a Retry"),  # type: ignore[call-overload]
        (lambda: step(timeout=-1)(charge), "timeout=-1 must be a number of seconds above 0"),
        (lambda: step(charge).with_options(timeout=math.nan), "timeout=nan must be"),
    ],
)
def test_what_is_no_step(act: Callable[[], Any], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        act()


def test_functions_made_anew_in_each_run_are_not_kept_for_ever() -> None:
    def made_in_a_body(number: int) -> Callable[[], int]:
        def count() -> int:
            return number

        return count

    calls = [step_call(made_in_a_body(number), (), {}) for number in range(2_000)]
    assert [call.call() for call in calls] == list(range(2_000))
    assert _step_of_function.cache_info().currsize <= 1024
