"""A worker of flesh and blood, as far as its burial is concerned: a process with a box, which holds runs and dies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyrula_runtime.stores.protocol import Claim, Store
from tests.blackbox.holder import Holder
from tests.store.samples import new_run, request


class Dying:
    """One incarnation. Its process writes into its box what it is told to."""

    def __init__(self, directory: Path, store: Store, incarnation: str, role: str = "plain") -> None:
        self.incarnation = incarnation
        self._store = store
        self._entries = 5_000_000
        self._holder = Holder(directory)
        created = (
            f"box = BlackBox.create(Path(sys.argv[1]), incarnation={incarnation!r}, worker_id={incarnation!r}, "
            f"store_identity={store.identity!r}, now_ms=1, role={role!r})\nanswer = str(box.path)"
        )
        self.box = Path(self._holder.do(created))
        self.stack = directory / "stacks" / f"{incarnation}.stack"
        self._holder.do("box.set_phase(Phase.ready)")

    async def claim(self, count: int = 1, *, suspects: bool = False) -> Sequence[Claim]:
        """Take runs (new ones, unless they are suspects) and begin their turns."""
        if not suspects:
            for _ in range(count):
                await self._store.submit(new_run())
        claims = await self._store.claim(request(limit=count, incarnation=self.incarnation, suspects=suspects))
        for claim in claims:
            self._holder.do(f"box.hold({claim.token.run_id!r}, {claim.token.fence})")
        return claims

    def execute(self, claim: Claim, step: str = "pay") -> None:
        """Have the lane enter a step of this run; the number of the entry grows by one each time, from 5,000,001 on."""
        self._entries += 1
        place = f"run_id={claim.token.run_id!r}, workflow='order', step={step!r}, op_id={step + '#1'!r}"
        self._holder.do(f"box.enter_lane(Place({place}), {self._entries})")

    def do(self, code: str) -> object:
        return self._holder.do(code)

    def outlived_by(self, code: str) -> int:
        return self._holder.outlived_by(code)

    def kill(self) -> None:
        self._holder.kill()

    def crash(self) -> None:
        """Touch memory that is not there, with the fatal signal's stack going to the stack file."""
        self.stack.parent.mkdir(exist_ok=True)
        self._holder.send(
            f"import faulthandler, ctypes\nfile = open({str(self.stack)!r}, 'wb', buffering=0)\n"
            "faulthandler.enable(file, all_threads=False)\nctypes.string_at(0)"
        )
        self._holder.died()

    def end(self) -> None:
        self._holder.end()
