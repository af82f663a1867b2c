"""The client for programs without an event loop: the same names as in `pyrula.workflows`, each call waits."""

from pyrula_runtime.client.sync import SyncBulk, SyncRunHandle, WorkflowClient

__all__ = ["SyncBulk", "SyncRunHandle", "WorkflowClient"]
