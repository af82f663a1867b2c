"""A storm over a real supervisor in which some runs block or kill their worker each time, and most do not.

Everything is planned from one seed: which runs come when, which blow falls when and on what kind of process. Only the
machine decides what each blow hits. When the time is up the blows stop, and everything has to come to its end: the
guilty quarantined for what they did, at the line where they did it, the innocent finished and uncharged.

Blows on cells are rationed: a cell that is killed three times in the same step convicts, whoever killed it, because
nobody can tell that from a run that has itself killed. So no run loses its cell to the storm more than twice.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyrula_runtime.core.status import RunStatus
from tests.faults.check_history import History, check, history_of
from tests.faults.guilty import HISTORIES, VERDICTS
from tests.faults.history import final_runs, load
from tests.faults.storm import ATTEMPTS
from tests.faults.supervised import Given, Supervised
from tests.faults.world import World

PROCS = 4
LOCK_TTL_S = 1.5
FLAGS = (
    *("--procs", str(PROCS), "--start-method", "template", "--max-rss-per-child", "128M", "--reload-settle", "0.2"),
    *("--lock-ttl", str(LOCK_TTL_S), "--block-warn", "0.4", "--replace-after", "1.2", "--orphan-scan-interval", "0.5"),
    *("--max-concurrent-runs", "8", "--shutdown-grace", "2", "--cancel-timeout", "0.5"),
)
INNOCENT = ("ten", "side by side", "plain", "lucky", "dawdling", "dawdling")
# how often the storm may kill the cell of one run
_CELL_KILLS = 2
# what one conviction may take: four charges, each after three lives of a lock, and a new process for each
_CONVICTION_S = 4 * (3 * LOCK_TTL_S + 2.5)
# what the last innocent run may take after the last blow, if no cell is taken
_REST_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How much is submitted, and for how long the storm blows."""

    innocent: int
    guilty_of_each: int
    length_s: float

    @property
    def bound_s(self) -> float:
        """After so long all have ended: convictions take cells, and suspects wait for them."""
        return _REST_S + _CONVICTION_S * (2 + self.guilty_of_each * len(VERDICTS) / PROCS)


@dataclass(slots=True, kw_only=True)
class Tally:
    """What the storm did, to show that it was one."""

    blows: Counter[str] = field(default_factory=Counter)
    innocent: list[str] = field(default_factory=list)
    guilty: dict[str, str] = field(default_factory=dict)  # run id -> workflow

    def told(self) -> str:
        """For people."""
        blows = ", ".join(f"{count} {name}" for name, count in sorted(self.blows.items()))
        return f"{len(self.innocent)} innocent runs, {len(self.guilty)} guilty; {blows}"


class BlameStorm:
    """One storm; `rage` does it all."""

    def __init__(self, world: World, seed: int, load: Load) -> None:
        self.tally = Tally()
        self._world = world
        self._seed = seed
        self._load = load
        self._histories = world.directory / "histories"
        self._histories.mkdir()
        given = Given(
            store_url=world.url,
            workflows=("tests.faults.workflows", "tests.faults.guilty"),
            flags=FLAGS,
            environ={HISTORIES: str(self._histories)},
        )
        self.supervised = Supervised(world.directory, given)
        self._cell_kills: Counter[str] = Counter()

    async def rage(self) -> list[str]:
        """Blow for the given time, let everything come to its end, and say what is wrong."""
        await self.supervised.start()
        await self.supervised.ready(PROCS)
        await asyncio.gather(self._submit(), self._blow())
        calm_s = time.monotonic()
        late = await self._calm(self._load.bound_s)
        codes = [] if late else [await self.supervised.stop()]
        history = history_of(
            load(self._histories.iterdir()),
            await final_runs(self._world.store),
            calm_s=calm_s,
            bound_s=self._load.bound_s,
            guilty=self.tally.guilty,
        )
        wrong = [f"the supervisor ended with {code}" for code in codes if code != 0]
        wrong += [] if history.runs else ["the workers' calls of the store were not written down"]
        wrong += late + check(history) + list(self._world.problems()) + self._wrong_marks(history)
        return wrong + await self._wrong_verdicts()

    # load

    async def _submit(self) -> None:
        """Runs come in bursts, the guilty among the innocent, all of them within the first two thirds."""
        chance = random.Random(f"{self._seed} load")
        coming = [chance.choice(INNOCENT) for _ in range(self._load.innocent)]
        coming += [workflow for workflow in VERDICTS for _ in range(self._load.guilty_of_each)]
        chance.shuffle(coming)
        bursts = [coming[at : at + 10] for at in range(0, len(coming), 10)]
        for burst in bursts:
            for workflow in burst:
                run_id = await self._world.submit(workflow)
                if workflow in VERDICTS:
                    self.tally.guilty[run_id] = workflow
                else:
                    self.tally.innocent.append(run_id)
            await asyncio.sleep(self._load.length_s * 2 / 3 / len(bursts))

    # blows

    async def _blow(self) -> None:
        chance = random.Random(f"{self._seed} blows")
        kinds: dict[Callable[[random.Random], Awaitable[None]], int] = {
            self._kill_worker: 6,
            self._kill_cell: 3,
            self._pause_worker: 4,
            self._kill_clerk: 1,
            self._kill_supervisor: 1,
            self._hog: 2,
            self._hold_the_store: 2,
            self._stop_a_holder: 1,
            self._restart: 1,
            self._reload: 1,
        }
        ends = time.monotonic() + self._load.length_s
        while time.monotonic() < ends:
            await asyncio.sleep(chance.uniform(0.1, 1.5))
            (blow,) = chance.choices(list(kinds), weights=list(kinds.values()))
            await blow(chance)
            self.tally.blows[blow.__name__.strip("_")] += 1

    async def _kill_worker(self, chance: random.Random) -> None:
        if rows := self.supervised.rows("worker", "surge"):
            self.supervised.send(chance.choice(rows)["pid"], signal.SIGKILL)

    async def _kill_cell(self, chance: random.Random) -> None:
        """The cell of a run that has lost few so far."""
        rows = self.supervised.rows("cell")
        chance.shuffle(rows)
        for row in rows:
            self.supervised.halt(row["pid"])  # or it might hold another run when the blow comes
            runs = self.supervised.runs_of(row)
            if len(runs) == 1 and self._cell_kills[runs[0]] < _CELL_KILLS:
                self._cell_kills[runs[0]] += 1
                self.supervised.send(row["pid"], signal.SIGKILL)
                return
            self.supervised.send(row["pid"], signal.SIGCONT)

    async def _pause_worker(self, chance: random.Random) -> None:
        """Longer than its locks live, as often as not."""
        if rows := self.supervised.rows("worker"):
            pid = chance.choice(rows)["pid"]
            self.supervised.send(pid, signal.SIGSTOP)
            await asyncio.sleep(LOCK_TTL_S * chance.uniform(0.3, 2))
            self.supervised.send(pid, signal.SIGCONT)

    async def _kill_clerk(self, _chance: random.Random) -> None:
        for row in self.supervised.rows("clerk"):
            self.supervised.send(row["pid"], signal.SIGKILL)

    async def _kill_supervisor(self, _chance: random.Random) -> None:
        """All that it has started dies with it, and its next start begins where it was."""
        await self.supervised.kill()
        await self.supervised.start()
        await self.supervised.ready()

    async def _hog(self, chance: random.Random) -> None:
        hogs = [await self._world.start(role="hog") for _ in range(4)]
        await asyncio.sleep(chance.uniform(0.5, 3))
        await asyncio.gather(*(hog.kill() for hog in hogs))

    async def _hold_the_store(self, chance: random.Random) -> None:
        """Nobody can write for a while."""
        if await self._halted(chance):
            return
        holder = await self._world.start(role="hold")
        await holder.told("holding")
        await asyncio.sleep(LOCK_TTL_S * chance.uniform(0.3, 2))
        await holder.kill()

    async def _stop_a_holder(self, chance: random.Random) -> None:
        """The same, and whoever keeps the others from writing stands still itself."""
        if await self._halted(chance):
            return
        holder = await self._world.start(role="hold")
        await holder.told("holding")
        holder.send(signal.SIGSTOP)
        await asyncio.sleep(LOCK_TTL_S * chance.uniform(0.3, 2))
        await holder.kill()

    async def _halted(self, chance: random.Random) -> bool:
        """Let a server answer nobody for a while; False if the store is a file."""
        if (halt := self._world.kept.halt) is None:
            return False
        length_s = LOCK_TTL_S * chance.uniform(0.3, 2)
        await asyncio.to_thread(halt, length_s)
        await asyncio.sleep(length_s)
        return True

    async def _restart(self, chance: random.Random) -> None:
        await asyncio.to_thread(self.supervised.command, "restart", chance.randrange(PROCS))

    async def _reload(self, _chance: random.Random) -> None:
        await asyncio.to_thread(self.supervised.command, "reload")

    # the end

    async def _calm(self, limit_s: float) -> list[str]:
        """Wait until every run has ended; what has not within the limit."""
        left = [*self.tally.guilty, *self.tally.innocent]
        deadline = time.monotonic() + limit_s
        while left:
            left = [run for run in left if not (await self._world.read(run)).status.is_terminal]
            if left and time.monotonic() > deadline:
                queue = self.supervised.document().get("queue")
                return [f"{len(left)} runs have not ended {limit_s:.0f} s after the last blow: {left[:5]}; {queue}"]
            await asyncio.sleep(0.2)
        return []

    def _wrong_marks(self, history: History) -> list[str]:
        """Under each claim every attempt of a step is made at most once."""
        return [
            f"run {run_id} was claimed {run.fence} times, and its {operation} was done {times} times"
            for run_id, run in history.final.items()
            for operation, times in self._world.marks(run_id).items()
            if times > run.fence * ATTEMPTS.get(operation, 1)
        ]

    async def _wrong_verdicts(self) -> list[str]:
        """The guilty are out for what they did, where they did it; the innocent came to their own end."""
        wrong = []
        for run_id, workflow in self.tally.guilty.items():
            wrong += _wrong_evidence(workflow, await self._world.client.describe(run_id))
        for run_id in self.tally.innocent:
            record = await self._world.read(run_id)
            if record.status is not RunStatus.completed:
                wrong.append(f"the innocent {run_id} ({record.workflow}) {record.status}: {record.error!r}")
        return wrong


def _wrong_evidence(workflow: str, run: dict[str, Any]) -> list[str]:
    wanted = VERDICTS[workflow]
    detail = (run["error"] or {}).get("detail") or {}
    evidence = detail.get("evidence") or {}
    found = (detail.get("cause"), evidence.get("step"))
    is_right = found[0] in (wanted.cause, wanted.or_cause) and found[1] == wanted.step
    if is_right and (not wanted.code or wanted.place in f"{evidence.get('line')} "):
        return []
    told = json.dumps({"charges": run["charges"], "marks": run["marks"], "error": run["error"]}, default=str)[:3_000]
    return [
        f"the guilty {run['run_id']} ({workflow}) is {run['status']} with {found} at {evidence.get('line')}: {told}"
    ]


def logs_of(directory: Path) -> str:
    """The end of the supervisor's log, for a storm that found something."""
    return (directory / "supervisor.log").read_text(errors="replace")[-6_000:]
