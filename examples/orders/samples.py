"""Orders to try the workflow with, and what has to become of each."""

from __future__ import annotations

from collections import Counter
from typing import Literal

from examples.orders.app import DECLINED_CARD, Order

_CUSTOMERS = ("Ada", "Barbara", "Edsger", "Frances", "Grace", "Ken", "Niklaus", "Radia")
_GOODS = (("kettle", 2900), ("lamp", 4500), ("notebook", 700), ("teapot", 3200), ("scarf", 1900))
# one card in so many is declined
_DECLINED_OF = 10


def orders(batch: str, count: int) -> list[Order]:
    """So many orders, whose ids begin with `batch`."""
    return [_order(f"{batch}-{number:03}", number) for number in range(1, count + 1)]


def _order(order_id: str, number: int) -> Order:
    customer = _CUSTOMERS[number % len(_CUSTOMERS)]
    goods = [_GOODS[(number + place) % len(_GOODS)] for place in range(1 + number % 3)]
    return Order(
        order_id=order_id,
        customer=customer,
        card=DECLINED_CARD if number % _DECLINED_OF == 0 else f"tok_{customer.lower()}",
        items=[name for name, _ in goods],
        total_cents=sum(cents for _, cents in goods),
    )


def expected_status(order: Order) -> Literal["shipped", "declined"]:
    """How the order has to end."""
    return "declined" if order.card == DECLINED_CARD else "shipped"


def expected_effects(order: Order) -> Counter[str]:
    """What has to happen to it, and how often."""
    if expected_status(order) == "declined":
        return Counter(reserve=1, release=1, notify=1)
    return Counter(reserve=1, charge=1, pack=len(order.items), ship=1, notify=1)
