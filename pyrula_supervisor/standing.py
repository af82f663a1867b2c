"""Standing in: the clerk acts for workers that live and cannot speak, as long as that is so.

What it is to do follows from what there is: a worker that no thread can speak for has its shards handed to its
neighbours; after a while its locks are renewed, and on the rung of evacuation all that it holds but the blocking run is
handed back. Where nobody can tell whose thread keeps the GIL nobody is known to be innocent, and the guilty would only
go on to the next worker: then all stay where they are. It is told again while it is so, because a packet may be lost
and a clerk may be new; and once that it is over.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyrula_runtime.wire import Stage, StandIn
from pyrula_supervisor.actions import Send
from pyrula_supervisor.draft import Draft
from pyrula_supervisor.events import LaneSeen
from pyrula_supervisor.ladder import Rung
from pyrula_supervisor.model import Child, Standing, State

# At the latest; oftener where locks are short, since a clerk that hears nothing for a lock's life stands in no more.
TELL_AGAIN_MS = 2_000


def tell(draft: Draft) -> None:
    """Tell the clerk what has changed, and what it was told long ago."""
    clerk = draft.state.clerk
    if clerk is None or not clerk.serving:
        draft.set(stand_ins={})  # the next one begins with nothing
        return
    wanted, told = _wanted(draft.state), draft.state.stand_ins
    for name in told.keys() - wanted.keys():
        draft.do(Send(incarnation=clerk.incarnation, message=StandIn(incarnation=name, stage=Stage.over)))
    again_ms = min(TELL_AGAIN_MS, draft.state.policy.lock_ttl_ms // 3)
    kept: dict[str, Standing] = {}
    for name, (stage, keep) in wanted.items():
        former = told.get(name)
        is_new = former is None or (former.stage, former.keep) != (stage, keep)
        if former is None or is_new or draft.now_ms - former.told_ms >= again_ms:
            message = StandIn(incarnation=name, stage=stage, keep=keep)
            draft.do(Send(incarnation=clerk.incarnation, message=message))
            former = Standing(stage=stage, keep=keep, told_ms=draft.now_ms)
        kept[name] = former
    if kept != told:
        draft.set(stand_ins=kept)


def _wanted(state: State) -> Mapping[str, tuple[Stage, str]]:
    wanted = {}
    for child in state.children.values():
        if child.works and child.mute and child.seen:
            wanted[child.incarnation] = _stage(child, child.seen, state.policy.stand_in_ms)
    return wanted


def _stage(child: Child, seen: LaneSeen, stand_in_ms: int) -> tuple[Stage, str]:
    if seen.stuck_ms < stand_in_ms:
        return Stage.hand_on, ""
    is_late = child.rung >= Rung.evacuated and not seen.unknown
    return (Stage.evacuate, seen.run_id) if is_late else (Stage.renew, "")
