"""The workflow: reserve the goods, charge the card, pack every item, ship, tell the customer; or undo and tell.

Try it by hand:

    pyrula worker --workflow examples.orders.app
    pyrula submit process_order --wait \
        '{"order_id": "A-17", "customer": "Ada", "card": "tok_ada", "items": ["kettle"], "total_cents": 2900}'

The body only decides. Whatever takes time or touches the world is a step: plain ones run in threads and may block,
async ones share the worker's loop and may not.
"""

from __future__ import annotations

import asyncio
import time
from typing import Literal

from pydantic import BaseModel, Field

from examples.orders import outside
from pyrula.workflows import Retry, StepFailed, WorkflowContext, current_step, step, workflow

DECLINED_CARD = "tok_declined"


class CardDeclined(Exception):
    """The bank said no: trying again cannot help."""


class Order(BaseModel):
    """What the shop sends. The card is a token: no input should hold a secret, it is stored as it is."""

    order_id: str = Field(min_length=1)
    customer: str
    card: str
    items: list[str] = Field(min_length=1)
    total_cents: int = Field(gt=0)


class Outcome(BaseModel):
    """What became of an order."""

    order_id: str
    status: Literal["shipped", "declined"]
    receipt: str | None = None
    tracking: str | None = None


@workflow(timeout=600)
async def process_order(ctx: WorkflowContext, order: Order) -> Outcome:
    """Bring an order to the customer, or leave no trace of it."""
    await ctx.step(reserve_stock, order)
    try:
        receipt = await ctx.step(charge_card, order)
    except StepFailed as failed:
        await ctx.step(release_stock, order)
        if not failed.matches(CardDeclined):
            raise
        await ctx.step(notify, order, "your card was declined, nothing was charged")
        return Outcome(order_id=order.order_id, status="declined")
    parcels = await ctx.gather(*(ctx.step(pack, order, item) for item in order.items))
    tracking = await ctx.step(ship, order, parcels)
    await ctx.step(notify, order, f"your order is on its way: {tracking}")
    return Outcome(order_id=order.order_id, status="shipped", receipt=receipt, tracking=tracking)


@step(retry=3)
def reserve_stock(order: Order) -> None:
    """Put the goods aside."""
    time.sleep(outside.latency_s(order.order_id, "reserve"))
    outside.do("reserve", order.order_id, current_step().idempotency_key)


@step(retry=Retry(attempts=4, initial_s=0.1, never_for=(CardDeclined,)), timeout=10)
def charge_card(order: Order) -> str:
    """Charge the card. The key is equal in every attempt, so a lost answer never charges twice."""
    mine = current_step()
    time.sleep(outside.latency_s(order.order_id, "charge"))
    if order.card == DECLINED_CARD:
        raise CardDeclined(f"the bank declines {order.total_cents / 100:.2f} from {order.customer}")
    chance = outside.luck("bank", order.order_id, mine.attempt)
    if chance < 0.15 and mine.attempt < 3:
        raise ConnectionError("the bank did not answer")
    outside.do("charge", order.order_id, mine.idempotency_key)
    if chance < 0.3 and mine.attempt < 3:
        raise ConnectionError("the card was charged, but the bank's answer was lost")
    return f"receipt-{order.order_id}"


@step
def release_stock(order: Order) -> None:
    """Put the goods back on the shelf: what makes up for `reserve_stock`."""
    time.sleep(outside.latency_s(order.order_id, "release"))
    outside.do("release", order.order_id, current_step().idempotency_key)


@step
async def pack(order: Order, item: str) -> str:
    """Pack one item; all items of an order are packed side by side."""
    await asyncio.sleep(outside.latency_s(order.order_id, f"pack {item}"))
    await asyncio.to_thread(outside.do, "pack", order.order_id, current_step().idempotency_key)
    return f"parcel with {item}"


@step
def ship(order: Order, parcels: list[str]) -> str:
    """Hand the parcels to the courier."""
    time.sleep(outside.latency_s(order.order_id, "ship"))
    outside.do("ship", order.order_id, current_step().idempotency_key)
    return f"track-{order.order_id}-{len(parcels)}"


@step(retry=3)
async def notify(order: Order, text: str) -> None:
    """Write to the customer."""
    await asyncio.sleep(outside.latency_s(order.order_id, text))
    await asyncio.to_thread(outside.do, "notify", order.order_id, current_step().idempotency_key)
