"""Four workers, some quick runs, and five runs that block or kill their worker: who is found guilty, and who suffers.

    python -m examples.blame.demo            # 200 quick runs; takes about a minute
    python -m examples.blame.demo --runs 40

Times are short so that it does not take long: a lock lives for a second and a half, so a run may block its worker for
four and a half. Everything lives in a temporary folder. Ends with 0 if every promise was kept.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.console import Console
from rich.table import Table

from examples.blame.naming import Names
from examples.blame.promises import GUILTY, Fate, broken
from examples.supervisor_process import Given, SupervisorGaveUp, SupervisorProcess
from pyrula.workflows import PyrulaError, RunEnded, RunHandle, WorkflowClient, open_store

_FLAGS = (
    *("--lock-ttl", "1.5", "--block-warn", "0.5", "--replace-after", "1"),
    *("--shutdown-grace", "3", "--cancel-timeout", "1", "--max-rss-per-child", "128M"),
)
# between two quick runs, and between two guilty ones (seconds)
_PACE_S = 0.1
_GUILTY_APART_S = 0.7
_PATIENCE_S = 180.0
# a table has long lines, and needs them where nobody says how wide the terminal is
_WIDTH = None if sys.stdout.isatty() else 150
_console = Console(file=sys.stdout, highlight=False, width=_WIDTH)


def main() -> int:
    """Run the demonstration: its exit code."""
    parser = argparse.ArgumentParser(prog="python -m examples.blame.demo", description="Who is blamed.")
    parser.add_argument("--runs", type=int, default=200, help="how many quick runs (200)")
    given = parser.parse_args()
    if given.runs < 1:
        parser.error("--runs must be 1 or more")
    with _place() as folder:
        try:
            return asyncio.run(_demonstrate(given.runs, folder / "supervisor.log"))
        except (PyrulaError, SupervisorGaveUp) as error:
            _say(str(error))
            return 1


@contextmanager
def _place() -> Iterator[Path]:
    """Where store, log and runtime directory are, for as long as it lasts."""
    with tempfile.TemporaryDirectory(prefix="pyrula-blame-") as name:
        for variable in ("RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR", "PYRULA_STORE_URL"):
            os.environ.pop(variable, None)
        os.environ["XDG_STATE_HOME"] = name
        yield Path(name)


async def _demonstrate(count: int, log: Path) -> int:
    given = Given(name="blame", app="examples.blame.app", log=log, environ=os.environ, flags=_FLAGS)
    supervisor = SupervisorProcess(given, _say)
    names = Names(_say)
    life = asyncio.create_task(supervisor.run())
    watch = asyncio.create_task(supervisor.watch(names.heard))
    work = asyncio.create_task(_shown(count, names))
    await asyncio.wait((life, work), return_when=asyncio.FIRST_COMPLETED)
    work.cancel()  # nobody would end its runs, if it goes on
    watch.cancel()
    supervisor.request_stop()
    await asyncio.wait((life, work, watch))
    life.result()
    return 0 if work.result() else 1


async def _shown(count: int, names: Names) -> bool:
    """Submit everything, wait for what comes of it, and show that; whether every promise was kept."""
    async with WorkflowClient(open_store()) as client:
        _say(f"{count} quick runs, and among them {', '.join(each.workflow for each in GUILTY)}")
        quick, guilty = await asyncio.gather(_submit_quick(client, count), _submit_guilty(client))
        ended = await _ended([*quick, *guilty])
        await asyncio.sleep(2 * _GUILTY_APART_S)  # the supervisor tells every second
        runs = [await client.describe(handle.run_id) for handle in [*quick, *guilty]]
    fates = [Fate(run=run, named_s=names.first_s(run)) for run in runs]
    neighbours, found = fates[:count], list(zip(GUILTY, fates[count:], strict=True))
    _console.print(_table([fate for _, fate in found]))
    _say(_of_neighbours(neighbours))
    wrong = [*broken(found, neighbours)] if ended else ["not every run has ended in time"]
    for sentence in wrong:
        _say(f"wrong: {sentence}")
    if not wrong:
        _say("each guilty run is out, by its own name; no other run was charged, and all of them completed")
    return not wrong


async def _submit_quick(client: WorkflowClient, count: int) -> list[RunHandle[object]]:
    handles = []
    for number in range(count):
        handles.append(await client.submit("quick", {"number": number}))
        await asyncio.sleep(_PACE_S)
    return handles


async def _submit_guilty(client: WorkflowClient) -> list[RunHandle[object]]:
    handles = []
    for promise in GUILTY:
        await asyncio.sleep(_GUILTY_APART_S)
        _say(f"submitted: a {promise.workflow}, which {promise.deed}")
        handles.append(await client.submit(promise.workflow, {}))
    return handles


async def _ended(handles: Sequence[RunHandle[object]]) -> bool:
    """Wait until all have ended, however; whether they did in time."""

    async def end(handle: RunHandle[object]) -> None:
        with suppress(RunEnded):
            await handle.result()

    try:
        async with asyncio.timeout(_PATIENCE_S):
            await asyncio.gather(*map(end, handles))
    except TimeoutError:
        return False
    return True


def _table(guilty: Sequence[Fate]) -> Table:
    table = Table("run", "cause", "step", "line", "named after", "charges", "out after", title="who was named")
    for fate in guilty:
        run = fate.run
        table.add_row(
            run["workflow"],
            fate.detail.get("cause", run["status"]),
            fate.evidence.get("step", ""),
            _short(fate.evidence.get("line", "")),
            "never" if fate.named_s is None else f"{fate.named_s:.1f} s",
            str(len(run["charges"])),
            f"{fate.took_s:.1f} s",
        )
    return table


def _short(line: str) -> str:
    """A line without the folders of its file."""
    place, colon, rest = line.partition(":")
    return f"{Path(place).name}{colon}{rest}"


def _of_neighbours(fates: Sequence[Fate]) -> str:
    took_ms = sorted(fate.took_s * 1000 for fate in fates)
    half, most = (took_ms[max(0, math.ceil(share * len(took_ms)) - 1)] for share in (0.5, 0.99))
    completed = sum(fate.run["status"] == "completed" for fate in fates)
    quarantined = sum(fate.run["status"] == "quarantined" for fate in fates)
    charges = sum(len(fate.run["charges"]) for fate in fates)
    return (
        f"neighbours: {completed} of {len(fates)} completed, {quarantined} quarantined, {charges} charges; "
        f"submit to end p50 {half:.0f} ms, p99 {most:.0f} ms, longest {took_ms[-1]:.0f} ms"
    )


def _say(line: str) -> None:
    _console.print(line, markup=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
