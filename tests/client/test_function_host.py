"""A function that submits a run and returns, as the manual shows it: module level store and client, a handler."""

from __future__ import annotations

import tempfile
from typing import Any

import pytest

from pyrula.workflows import ConfigurationError, RunStatus, open_store
from pyrula.workflows.sync import WorkflowClient


def test_a_redelivered_event_gets_the_first_run_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYRULA_STORE_URL", raising=False)
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(default=f"sqlite:///{folder}/lambda.db")
        client = WorkflowClient(store)

        def handler(event: dict[str, str], context: object) -> dict[str, Any]:
            run = client.submit(
                "process_document",
                {"document_id": event["document_id"]},
                idempotency_key=f"document:{event['document_id']}",
            )
            return {"run_id": run.run_id}

        first = handler({"document_id": "doc_9"}, None)
        assert handler({"document_id": "doc_9"}, None) == first
        assert handler({"document_id": "doc_10"}, None) != first
        assert client.handle("process_document", first["run_id"]).status() is RunStatus.queued
        client.close()


def test_where_a_store_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYRULA_STORE_URL", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert open_store().url == "sqlite:////state/pyrula/pyrula.db"
    assert open_store(default="sqlite:////d.db").url == "sqlite:////d.db"
    monkeypatch.setenv("PYRULA_STORE_URL", "sqlite:////e.db")
    assert open_store(default="sqlite:////d.db").url == "sqlite:////e.db"
    assert open_store("sqlite:////u.db").url == "sqlite:////u.db"
    with pytest.raises(ConfigurationError, match="scheme 'mysql' is unknown"):
        open_store("mysql://host/db")
