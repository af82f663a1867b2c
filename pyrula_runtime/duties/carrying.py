"""Carrying: effects of a turn on runs of other shards, which its worker did not live to see to.

A store of several shards keeps them in an outbox, as part of the turn's own write. Its worker sees to them right after;
this is for those of the dead, so it follows each burial, and now and then it looks for those of hosts that are gone.
"""

from __future__ import annotations

import logging

from pyrula_runtime.stores.protocol import Store

log = logging.getLogger("pyrula.duties")

# effects seen to in one call
_PAGE = 500


async def carry(store: Store) -> None:
    """See to all that is left."""
    carried = 0
    while (some := await store.carry(_PAGE)) > 0:
        carried += some
    if carried:
        log.info("carried %d effects of turns whose worker is gone", carried)
