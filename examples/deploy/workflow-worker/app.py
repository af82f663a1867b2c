"""A workflow for the deployment recipes: as small as one can be and still show that runs survive a restart."""

from pyrula.workflows import WorkflowContext, step, workflow


@step(retry=3, timeout=30)
def fetch(document_id: str) -> str:
    """Stands for reading the document from wherever it is."""
    return f"the text of {document_id}"


@step
def index(text: str) -> int:
    """Stands for writing the document's words into an index."""
    return len(text.split())


@workflow
async def process_document(ctx: WorkflowContext, document_id: str) -> int:
    """Index one document: how many words it has."""
    text = await ctx.step(fetch, document_id)
    return await ctx.step(index, text)
