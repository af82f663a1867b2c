"""Standing in: the clerk acts for workers that live and cannot speak, as long as that is so.

What it is to do follows from what there is. Whatever a worker holds that has been silent for a while is renewed; how
long that is goes by the clock on the wall, as locks do, and not by what counts against its code: on a starved host that
is a tenth of it. One that no thread can speak for has its shards handed to its neighbours as well, and on the rung of
evacuation all that it holds but the blocking run is handed back. Where nobody can tell whose thread keeps the GIL
nobody is known to be innocent, and the guilty would only go on to the next worker: then all stay where they are. It is
told again while it is so, because a packet may be lost and a clerk may be new; and once that it is over.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyrula_runtime.wire import Stage, StandIn
from pyrula_supervisor.actions import Send
from pyrula_supervisor.draft import Draft
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
    mute = (child for child in state.children.values() if child.works and _is_to_be_stood_in_for(child, state))
    return {child.incarnation: _stage(child) for child in mute}


def _is_to_be_stood_in_for(child: Child, state: State) -> bool:
    """Nobody vouches for longer than code may block for a worker of which no more becomes known than its silence."""
    return child.mute or state.policy.stand_in_ms <= child.silent_ms < state.policy.block_limit_ms


def _stage(child: Child) -> tuple[Stage, str]:
    if not child.mute:
        return Stage.renew, ""
    if child.seen and child.rung >= Rung.evacuated and not child.seen.unknown:
        return Stage.evacuate, child.seen.run_id
    return Stage.hand_on, ""
