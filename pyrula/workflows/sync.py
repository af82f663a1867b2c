"""The client for programs without an event loop: the same names as in `pyrula.workflows`, each call waits."""

from pyrula_runtime.client.sync import SyncRequeueing, SyncRunHandle, WorkflowClient

__all__ = ["SyncRequeueing", "SyncRunHandle", "WorkflowClient"]
