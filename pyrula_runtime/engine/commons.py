"""What all lanes of one worker have in common: threads for plain code, claims on their way, and the order to drain.

Plain (sync) workflows and steps get threads of two pools: a body that waits for its step must never keep that step from
starting.
"""

from __future__ import annotations

import threading
from copy import copy

from pyrula_runtime.engine.coming import Coming
from pyrula_runtime.engine.threads import Threads


class Commons:
    """One worker's; each part is thread-safe by itself."""

    def __init__(self, capacity: int) -> None:
        self.isolates = False  # some turns have loops of their own
        self.coming = Coming()
        self.drain = threading.Event()
        self.no_successors = threading.Event()  # a turn that ends claims no other: a suspect is to run alone
        self.steps = Threads(capacity, "pyrula-step")
        self.bodies = Threads(capacity, "pyrula-body")

    def beside(self) -> Commons:
        """The same for lanes whose claims are to be told apart from those of the others."""
        beside = copy(self)
        beside.coming = Coming()
        return beside

    def shutdown(self) -> None:
        """Begin nothing any more; threads in user code are left to themselves."""
        self.steps.shutdown()
        self.bodies.shutdown()
