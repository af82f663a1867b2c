"""What a write does to others, as its script is told: for each effect the script that does it and the tag it strikes.

A run is struck where it lives, which its id says; events are kept once in a namespace.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyrula_runtime.stores import protocol as p
from pyrula_runtime.stores.valkey import requests
from pyrula_runtime.stores.valkey.connection import Argument
from pyrula_runtime.stores.valkey.places import Places


def block(effects: Sequence[p.Effect], places: Places) -> requests.Arguments:
    """The arguments of `perform`: number of effects, then of each script, tag, number of arguments, arguments."""
    told: list[Argument] = [len(effects)]
    for effect in effects:
        script, tag, args = _one(effect, places)
        told += [script, tag, len(args), *args]
    return tuple(told)


def _one(effect: p.Effect, places: Places) -> tuple[str, str, requests.Arguments]:
    match effect:
        case p.DeliverTo():
            message = effect.message
            return "deliver", places.tag_of_run(message.run_id), requests.deliver(message, effect.moves)
        case p.SubmitRun():
            return "submit", places.tag_of_run(effect.run.run_id), requests.submit(effect.run)
        case p.CancelRun():
            return "cancel", places.tag_of_run(effect.run_id), requests.cancel(effect)
        case p.EmitEvent():
            return "emit", places.first, requests.emit(effect.event)
