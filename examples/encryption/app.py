"""A workflow whose payloads are encrypted; the codec is a part of the app, and is named where the app is.

pip install cryptography
export PAYLOAD_KEYS=$(python -c 'import os, base64; print(base64.b64encode(os.urandom(32)).decode())')
export PYRULA_CODEC=examples.encryption.app:codec
pyrula worker --workflow examples.encryption.app
pyrula submit greet_in_secret '{"name": "Ada"}' --wait
"""

from __future__ import annotations

import os

from examples.encryption.aes_gcm import AesGcm, keys_from
from pyrula.workflows import WorkflowContext, step, workflow

codec = AesGcm(keys_from(os.environ))


@step
def compose(name: str) -> str:
    """Its outcome is in the journal, encrypted."""
    if name == "nobody":
        raise ValueError(f"{name} cannot be greeted")
    return f"Hello {name}!"


@workflow
async def greet_in_secret(ctx: WorkflowContext, name: str) -> str:
    """Its input and its result are in the store, encrypted."""
    return await ctx.step(compose, name)
