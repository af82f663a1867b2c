"""The orders at work: a supervisor with four workers, some orders for them, and a look at what becomes of them.

    python -m examples.orders.demo           # 100 orders, then the workers go on until Ctrl-C
    python -m examples.orders.demo --once    # ends by itself, with 0 if every order ended as it had to

With --once everything lives in a temporary folder. Without, the store is this user's own, so that `pyrula runs list`
shows the orders, today and tomorrow. Kill a worker at any moment, or the supervisor with all of them: others go on, and
nothing is done twice.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from examples.orders import outside
from examples.orders.app import Order, Outcome, process_order
from examples.orders.board import Board
from examples.orders.samples import expected_effects, expected_status, orders
from examples.supervisor_process import Given, SupervisorGaveUp, SupervisorProcess
from pyrula.workflows import PyrulaError, RunEnded, RunHandle, WorkflowClient, open_store

_NAME = "orders"
_REFRESH_S = 0.1
_SCRIPTS = Path(sys.executable).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What this demonstration is to do, and where the supervisor's log goes."""

    orders: Sequence[Order]
    is_once: bool
    log: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The orders with their runs and what became of them; None for a run that failed."""

    orders: Sequence[Order]
    run_ids: Sequence[str]
    outcomes: Sequence[Outcome | None]
    took_s: float


def main() -> int:
    """Run the demonstration: its exit code."""
    parser = argparse.ArgumentParser(prog="python -m examples.orders.demo", description="Orders at work.")
    parser.add_argument("--once", action="store_true", help="end by itself when all orders have ended")
    parser.add_argument("--orders", type=int, default=100, help="how many orders (100)")
    given = parser.parse_args()
    if given.orders < 1:
        parser.error("--orders must be 1 or more")
    with _place(is_once=given.once) as folder:
        batch = secrets.token_hex(2).upper()
        plan = Plan(orders=orders(batch, given.orders), is_once=given.once, log=folder / "supervisor.log")
        board = Board(batch, given.orders)
        try:
            return asyncio.run(_demonstrate(plan, board))
        except (PyrulaError, SupervisorGaveUp) as error:
            board.say(str(error))
            return 1


@contextmanager
def _place(*, is_once: bool) -> Iterator[Path]:
    """Where ledger and log are kept; with --once the store and everything else as well, for as long as it lasts."""
    if is_once:
        with tempfile.TemporaryDirectory(prefix="pyrula-orders-") as name:
            for variable in ("RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR", "PYRULA_STORE_URL"):
                os.environ.pop(variable, None)
            os.environ["XDG_STATE_HOME"] = name
            os.environ["ORDERS_LEDGER"] = str(Path(name, "ledger.db"))
            yield Path(name)
        return
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state", "pyrula", "examples")
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("ORDERS_LEDGER", str(folder / "orders-ledger.db"))
    yield folder


async def _demonstrate(plan: Plan, board: Board) -> int:
    """Serve the orders. Ctrl-C drains the workers, at whatever point it comes; a second one ends them at once."""
    given = Given(name=_NAME, app="examples.orders.app", log=plan.log, environ=os.environ)
    supervisor = SupervisorProcess(given, board.say)
    interrupted = asyncio.Event()

    def interrupt() -> None:
        board.say("at once, then" if interrupted.is_set() else "draining: runs that have begun may end, others wait")
        interrupted.set()
        supervisor.request_stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, interrupt)
    shown = asyncio.create_task(_shown(board, supervisor))
    life = asyncio.create_task(supervisor.run())
    work = asyncio.create_task(_orders(plan, board, supervisor))
    await asyncio.wait((life, work), return_when=asyncio.FIRST_COMPLETED)
    if life.done():
        work.cancel()  # nobody would end its orders
    elif (plan.is_once or work.exception()) and not interrupted.is_set():
        supervisor.request_stop()
    await asyncio.wait((life, work))
    shown.cancel()
    await asyncio.wait([shown])
    code = life.result()
    if work.cancelled():
        return 130 if plan.is_once and code == 0 else code
    is_good = work.result()
    return code or (0 if is_good or not plan.is_once else 1)


async def _shown(board: Board, supervisor: SupervisorProcess) -> None:
    """Show orders and workers, until cancelled."""
    async with asyncio.TaskGroup() as group:
        group.create_task(supervisor.watch(board.workers_are))
        with board.shown():
            while True:
                await asyncio.sleep(_REFRESH_S)
                board.refresh()


async def _orders(plan: Plan, board: Board, supervisor: SupervisorProcess) -> bool:
    """Submit the orders, show how they fare, and tell what became of them; whether all ended as they had to."""
    async with WorkflowClient(open_store()) as client:
        board.say(f"{len(plan.orders)} orders; the log is {plan.log}")
        ended = await _submitted_and_ended(client, plan.orders, board)
    faults = await asyncio.to_thread(_faults, ended)
    _tell(ended, faults, board)
    if plan.is_once:
        await asyncio.to_thread(_show_one, ended, board)
    else:
        _invite(ended, board, supervisor)
    return not faults


async def _submitted_and_ended(client: WorkflowClient, batch: Sequence[Order], board: Board) -> Ended:
    began_s = time.monotonic()

    async def outcome_of(handle: RunHandle[Outcome]) -> Outcome | None:
        outcome = None
        with suppress(RunEnded):
            outcome = await handle.result()
        board.ended("failed" if outcome is None else outcome.status)
        return outcome

    handles = await asyncio.gather(
        *(client.submit(process_order, each, idempotency_key=each.order_id) for each in batch)
    )
    outcomes = await asyncio.gather(*map(outcome_of, handles))
    return Ended(
        orders=batch,
        run_ids=[handle.run_id for handle in handles],
        outcomes=outcomes,
        took_s=time.monotonic() - began_s,
    )


def _faults(ended: Ended) -> list[str]:
    """Orders that did not end as they had to, or to which something happened too often or not at all."""
    found = []
    happened = outside.effects_on(order.order_id for order in ended.orders)
    for order, run_id, outcome in zip(ended.orders, ended.run_ids, ended.outcomes, strict=True):
        status = "failed" if outcome is None else outcome.status
        effects = happened[order.order_id]
        if status != expected_status(order) or effects != expected_effects(order):
            found.append(f"order {order.order_id} (run {run_id}) {status}, and to it happened {dict(effects)}")
    return found


def _tell(ended: Ended, faults: Sequence[str], board: Board) -> None:
    statuses = [outcome.status for outcome in ended.outcomes if outcome is not None]
    count, shipped, declined = len(ended.orders), statuses.count("shipped"), statuses.count("declined")
    board.say(
        f"{count} orders in {ended.took_s:.1f} s ({count / ended.took_s:.0f} runs/s): {shipped} completed, "
        f"{declined} compensated (card declined, stock released), {count - len(statuses)} failed"
    )
    for fault in faults:
        board.say(f"wrong: {fault}")
    if not faults:
        board.say("every order ended as it had to, and everything was done once, whatever had to be asked for again")


def _example(ended: Ended) -> str:
    """A run that is worth a look: one with a declined card, if there is one."""
    declined = (
        run_id
        for run_id, outcome in zip(ended.run_ids, ended.outcomes, strict=True)
        if outcome is not None and outcome.status == "declined"
    )
    return next(declined, ended.run_ids[0])


def _show_one(ended: Ended, board: Board) -> None:
    args = ["runs", "show", _example(ended)]
    board.say(f"\n$ {shlex.join([_typed('pyrula'), *args])}")
    shown = subprocess.run([str(_SCRIPTS / "pyrula"), *args], capture_output=True, text=True, check=True)
    board.say(shown.stdout.rstrip())


def _invite(ended: Ended, board: Board, supervisor: SupervisorProcess) -> None:
    pyrula = _typed("pyrula")
    board.say(f"look at one:     {pyrula} runs show {_example(ended)}")
    board.say(f"all of them:     {pyrula} runs list")
    board.say(f"at the workers:  {_typed('pyrula-supervisor')} status --name {_NAME}")
    board.say(f"supervisor {supervisor.pid} goes on; kill -9 a worker if you like, or all of it; end it with Ctrl-C")


def _typed(script: str) -> str:
    """The command as it can be typed here."""
    path = _SCRIPTS / script
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)


if __name__ == "__main__":
    sys.exit(main())
