"""Durable workflows: define them, submit their runs, wait for what comes of them."""

from pyrula_runtime.client.bulk import Bulk, BulkResult
from pyrula_runtime.client.emitting import Emitted, WaitingEvent
from pyrula_runtime.client.handle import RunHandle
from pyrula_runtime.client.opening import open_store
from pyrula_runtime.client.schedules import ScheduleSummary
from pyrula_runtime.client.telling import RunEvent, RunSummary
from pyrula_runtime.client.workflow_client import WorkflowClient
from pyrula_runtime.core.errors import (
    ChildFailed,
    CodecFailed,
    ConfigurationError,
    ErrorRecord,
    IdempotencyConflict,
    IllegalTransition,
    InputError,
    JournalMismatch,
    LimitExceeded,
    PyrulaError,
    RunCancelled,
    RunEnded,
    RunFailed,
    RunNotFound,
    RunQuarantined,
    RunTimeout,
    SignalTimeout,
    StepFailed,
    StepTimeout,
    StoreCorrupt,
    StoreRefused,
    StoreUnavailable,
    UsageError,
    WaitTimeout,
)
from pyrula_runtime.core.retry import Retry
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.loop_local import lane_local
from pyrula_runtime.engine.payloads import Codec
from pyrula_runtime.workflows.children import ChildHandle, SyncChildHandle
from pyrula_runtime.workflows.context import SyncWorkflowContext, WorkflowContext, current_step
from pyrula_runtime.workflows.logs import RunFields
from pyrula_runtime.workflows.racing import First
from pyrula_runtime.workflows.registry import workflow
from pyrula_runtime.workflows.starting import OnEvent, Schedule
from pyrula_runtime.workflows.steps import step

__all__ = [
    "Bulk",
    "BulkResult",
    "ChildFailed",
    "ChildHandle",
    "Codec",
    "CodecFailed",
    "ConfigurationError",
    "Emitted",
    "ErrorRecord",
    "First",
    "IdempotencyConflict",
    "IllegalTransition",
    "InputError",
    "JournalMismatch",
    "LimitExceeded",
    "OnEvent",
    "PyrulaError",
    "Retry",
    "RunCancelled",
    "RunEnded",
    "RunEvent",
    "RunFailed",
    "RunFields",
    "RunHandle",
    "RunNotFound",
    "RunQuarantined",
    "RunStatus",
    "RunSummary",
    "RunTimeout",
    "Schedule",
    "ScheduleSummary",
    "SignalTimeout",
    "StepFailed",
    "StepTimeout",
    "StoreCorrupt",
    "StoreRefused",
    "StoreUnavailable",
    "SyncChildHandle",
    "SyncWorkflowContext",
    "UsageError",
    "WaitTimeout",
    "WaitingEvent",
    "WorkflowClient",
    "WorkflowContext",
    "current_step",
    "lane_local",
    "open_store",
    "step",
    "workflow",
]
