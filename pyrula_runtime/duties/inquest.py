"""Inquest: what is known of a worker's end, put together from all that saw it, in the words of core.deaths.

**Witnesses.** The supervisor, if it reaped the worker: its *finding* says why it ended, and whom it had seen blocking.
The *black box*: who was executing, and whose turns had begun. The *crash file*: where a fatal signal or an `os._exit`
came from, written by the dying process itself, so it is believed even where the finding knows of nothing.

**Nobody reaped it.** Then the box was found by a round. A worker without a supervisor was killed, as far as anybody
knows. One with a supervisor died with it, or left because of it: blameless. So did whoever was leaving already.

**Unknown is never a verdict.** Without a box nobody had begun and nobody executed. A torn or overflowed table of
threads makes unknown who executed; a torn table of runs takes the store's word for who was in flight. The guilty is
guilty only if the box still shows its code in the very entry that was seen blocking: if the code went on before the
worker was killed, nobody is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyrula_runtime.blackbox import BoxView, Nobody, Phase
from pyrula_runtime.blackbox import Executing as Span
from pyrula_runtime.core.deaths import ENDED_ITSELF, Cause, Death, Evidence, Executing
from pyrula_runtime.core.locks import Token
from pyrula_runtime.stacks import CrashNote
from pyrula_runtime.stores.protocol import Holding
from pyrula_runtime.users_code import with_source
from pyrula_runtime.wire import Finding, Role

PLAIN = "plain"
_LEAVING = (Phase.draining, Phase.stopping)
_NOTED = {"signal": Cause.crashed, "exit": Cause.exited}
_LAST_WORDS = {
    "signal": "died of {}",
    "exit": "left by os._exit({})",
    "timeout": ENDED_ITSELF + ", since it had stood still for {}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Witnesses:
    """What there is to ask about the end of one incarnation."""

    incarnation: str
    box: BoxView | None
    note: CrashNote | None
    finding: Finding | None


def begun_of(box: BoxView | None, held: Sequence[Token]) -> frozenset[Token]:
    """Whose turns had begun, of what the store says that the incarnation holds.

    A claim may have reached the store when its worker was dead already, even one of a run that it had held before.
    """
    if box is None:
        return frozenset()
    begun = {(each.run_id, each.fence) for each in box.in_flight}
    return frozenset(each for each in held if (each.run_id, each.fence) in begun or not box.in_flight_complete)


def death_of(seen: Witnesses, held: Sequence[Token], wall_ms: int, mono_ms: int) -> Death:
    """What happened; `held` is what the store says that the incarnation holds."""
    cause = _cause(seen)
    spans = _spans(seen.box)
    blocking = _blocking(seen.finding, spans) if cause is Cause.loop_blocked else None
    if blocking is not None and spans is not None:
        spans = (blocking, *(each for each in spans if each.run_id != blocking.run_id))
    end_ms = mono_ms if seen.finding is not None else _last_sign_ms(seen.box)
    return Death(
        cause=cause,
        in_cell=_in_cell(seen),
        executing=None if spans is None else tuple(_executing(each, end_ms) for each in spans),
        in_flight=_in_flight(seen.box, held),
        evidence=_evidence(seen, cause, wall_ms),
        guilty=_guilty(seen.finding, blocking),
    )


def death_for(seen: Witnesses, holding: Holding, death: Death) -> Death:
    """The death as this run saw it: a worker without a supervisor is the cell of a suspect, which it runs alone."""
    is_plain = seen.box is not None and seen.box.role == PLAIN
    is_alone = is_plain and holding.dossier.is_suspect and death.in_flight == {holding.token.run_id}
    return replace(death, in_cell=True) if is_alone else death


def _cause(seen: Witnesses) -> Cause:
    if seen.box is not None and seen.box.phase is Phase.stopped_clean:
        return Cause.blameless
    told = _told(seen)
    noted = None if seen.note is None else _NOTED.get(seen.note.kind)
    # whoever was told to leave, or was killed, may have been dying by itself all the same
    return noted if noted is not None and told in (Cause.blameless, Cause.killed) else told


def _told(seen: Witnesses) -> Cause:
    if seen.finding is not None:
        # a reason that only a newer supervisor knows is none to blame anybody for
        return Cause(seen.finding.cause) if seen.finding.cause in set(Cause) else Cause.blameless
    if seen.box is None or seen.box.role != PLAIN or seen.box.phase in _LEAVING:
        return Cause.blameless
    return Cause.killed


def _in_cell(seen: Witnesses) -> bool:
    if seen.box is not None and seen.box.role == Role.cell:
        return True
    return seen.finding is not None and seen.finding.in_cell


def _spans(box: BoxView | None) -> tuple[Span, ...] | None:
    if box is None or box.lane is None or not box.threads_complete:
        return None
    return box.threads if isinstance(box.lane, Nobody) else (box.lane, *box.threads)


def _blocking(finding: Finding | None, spans: tuple[Span, ...] | None) -> Span | None:
    """The guilty's code, if it is still the same."""
    if finding is None or not finding.guilty:
        return None
    known = (each for each in spans or () if each.run_id == finding.guilty and each.entries == finding.entries)
    return next(known, None)


def _guilty(finding: Finding | None, blocking: Span | None) -> str | None:
    if finding is not None and finding.cause == Cause.loop_blocked and not finding.guilty:
        return None
    return "" if blocking is None else blocking.run_id


def _last_sign_ms(box: BoxView | None) -> int:
    """When the worker certainly lived: it may have been found long after its end."""
    if box is None:
        return 0
    return max(box.control_beat_ms or 0, box.lane_beat_ms or 0, box.watch_beat_ms or 0)


def _executing(span: Span, end_ms: int) -> Executing:
    # code that is there was there for some time: 0 would mean that it is not known
    for_ms = max(end_ms - span.since_ms, 1)
    return Executing(run_id=span.run_id, op_id=span.op_id, step=span.step, for_ms=for_ms)


def _in_flight(box: BoxView | None, held: Sequence[Token]) -> frozenset[str]:
    listed = frozenset(each.run_id for each in box.in_flight) if box is not None else frozenset()
    return listed | {each.run_id for each in begun_of(box, held)}


def _evidence(seen: Witnesses, cause: Cause, wall_ms: int) -> Evidence:
    box, note, finding = seen.box, seen.note, seen.finding or Finding(cause=cause)
    blank = Evidence(
        at_ms=wall_ms,
        cause=cause,
        worker=finding.worker or (box.worker_id if box else seen.incarnation),
        pid=finding.pid or (box.pid if box else 0),
        exit=finding.exit,
        for_ms=finding.for_ms,
        line=with_source(finding.line),  # who looked from outside does not read files
        stack=finding.stack,
        rss_bytes=finding.rss_bytes,
        limit_bytes=finding.limit_bytes,
    )
    if note is None:
        return blank
    return replace(
        blank,
        exit=blank.exit or _LAST_WORDS[note.kind].format(note.what),
        line=blank.line or note.line,
        stack=blank.stack or note.stack,
    )
