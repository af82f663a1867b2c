"""A function host that starts runs: it submits and returns, and the run executes wherever a worker is.

The function needs the workers' store and nothing else of theirs, so it names the workflow instead of importing it. Here
the store is an SQLite file in a temporary folder, which shows the code but serves this machine only: a real function
host has to reach the workers' store, which needs a store for several hosts. This version has none yet.
"""

import tempfile
from typing import Any

from pyrula.workflows import open_store
from pyrula.workflows.sync import WorkflowClient

# Made once for each execution environment, and used by all of its invocations.
client = WorkflowClient(open_store(default=f"sqlite:///{tempfile.mkdtemp()}/lambda.db"))


def handler(event: dict[str, Any], context: object) -> dict[str, str]:
    """Start the processing of a document, once for each document a day: an event may be delivered twice."""
    document_id = event["document_id"]
    run = client.submit(
        "process_document", {"document_id": document_id}, idempotency_key=f"process-document:{document_id}"
    )
    return {"run_id": run.run_id}


if __name__ == "__main__":
    first = handler({"document_id": "doc_9"}, None)
    assert handler({"document_id": "doc_9"}, None) == first
    assert handler({"document_id": "doc_10"}, None) != first
    client.close()
    print(f"started {first['run_id']}, once")
