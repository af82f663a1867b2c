"""From a workflow to the program that the engine executes."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from pyrula_runtime.core.entries import Json
from pyrula_runtime.engine.program import Operations, Program, SyncOperations
from pyrula_runtime.workflows.context import SyncWorkflowContext, WorkflowContext
from pyrula_runtime.workflows.workflow import Workflow


def program_of(workflow: Workflow[..., Any, Any]) -> Program:
    """The workflow as a program; UsageError if an annotation of its function means nothing."""
    function, fill = workflow.function, workflow.binding.fill

    def start(operations: Operations, given: Json) -> Coroutine[Any, Any, Any]:
        filled = fill(given)
        coroutine: Coroutine[Any, Any, Any] = function(
            WorkflowContext(operations, workflow.name), *filled.args, **filled.kwargs
        )
        return coroutine

    def run(operations: SyncOperations, given: Json) -> Any:
        filled = fill(given)
        return function(SyncWorkflowContext(operations, workflow.name), *filled.args, **filled.kwargs)

    return Program(
        name=workflow.name,
        version=workflow.version,
        start=start if workflow.is_async else None,
        run=None if workflow.is_async else run,
        to_json=workflow.form.to_json,
        timeout_s=workflow.timeout_s,
        cancel_within_s=workflow.cancel_within_s,
        isolation=workflow.isolation,
        schedule=workflow.declaration,
        triggers=workflow.triggers,
    )
