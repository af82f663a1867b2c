"""What must be true of every history, whatever was killed, paused or lost while it was made.

Each invariant is a function from a history to the sentences that say where it is broken, named by its number in the
design of the store. All of them are linear in the number of calls but for sorting: calls are looked at run by run, and
"A before B" means that A had answered before B was begun; calls that overlap may have happened in either order.
An unknown call may have happened or not, so it never breaks anything by itself, but what it may have done is allowed.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyrula_runtime.core.status import TERMINAL, RunStatus
from tests.faults.history import Call, FinalRun

ENDED = frozenset(str(status) for status in TERMINAL)
WRITTEN = ("done", "duplicate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A claim of a run that somebody was given, and when."""

    fence: int
    nonce: str
    began: float
    ended: float
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """Journal entries that somebody saw or wrote: digests from position `start` on, the journal's length or None."""

    start: int
    digests: Sequence[str]
    length: int | None
    began: float
    ended: float
    by: str


@dataclass(slots=True, kw_only=True)
class RunHistory:
    """All that was heard of one run."""

    claims: list[Held] = field(default_factory=list)
    commits: list[Call] = field(default_factory=list)  # that answered
    marks: list[tuple[float, int]] = field(default_factory=list)  # from when on, the lowest fence that may write
    renewals: list[tuple[float, int, str]] = field(default_factory=list)  # of locks that lived on: began, fence, by
    seen: list[Entries] = field(default_factory=list)
    statuses: list[tuple[float, float, str]] = field(default_factory=list)  # began, ended, status
    endings: list[str] = field(default_factory=list)  # terminal statuses that somebody certainly wrote
    revivals: int = 0  # requeues that certainly or perhaps happened


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Calls by run, and the runs as they were in the end. `calm_s` is when the faults stopped, monotonic.

    `guilty` are the runs whose code blocks or kills its worker, every time.
    """

    calls: Sequence[Call]
    final: Mapping[str, FinalRun]
    runs: Mapping[str, RunHistory]
    calm_s: float
    bound_s: float
    guilty: frozenset[str]


def history_of(
    calls: Iterable[Call],
    final: Iterable[FinalRun],
    *,
    calm_s: float = -math.inf,
    bound_s: float = math.inf,
    guilty: Iterable[str] = (),
) -> History:
    """Sort what was recorded by run."""
    in_order = sorted(calls, key=lambda call: call.began)
    runs: defaultdict[str, RunHistory] = defaultdict(RunHistory)
    for call in in_order:
        note = _NOTES.get(call.verb)
        if note is not None and (call.outcome == "ok" or call.verb == "amend"):
            note(runs, call)
    by_id = {run.run_id: run for run in final}
    return History(
        calls=in_order, final=by_id, runs=dict(runs), calm_s=calm_s, bound_s=bound_s, guilty=frozenset(guilty)
    )


Runs = defaultdict[str, RunHistory]


def _note_claims(runs: Runs, call: Call) -> None:
    for claim in call.answer["claims"]:
        run = runs[claim["run"]]
        held = Held(
            fence=claim["fence"], nonce=claim["nonce"], began=call.began, ended=call.ended, length=claim["length"]
        )
        run.claims.append(held)
        run.marks.append((call.ended, held.fence))
        run.seen.append(_entries(call, 0, claim["journal"], claim["length"]))


def _note_commit(runs: Runs, call: Call) -> None:
    run = runs[call.given["run"]]
    run.commits.append(call)
    if call.answer["append"] == "done":
        run.marks.append((call.ended, call.given["fence"] + (call.given["ending"] is not None)))
    if call.answer["append"] in WRITTEN:
        run.seen.append(_entries(call, call.given["at"], call.given["entries"], None))
        _note_ending(run, call, call.given["ending"], is_first=call.answer["append"] == "done")
    _note_claims(runs, call)


def _note_ending(run: RunHistory, call: Call, status: str | None, *, is_first: bool) -> None:
    if status in ENDED:
        run.statuses.append((call.began, call.ended, str(status)))
        if is_first:
            run.endings.append(str(status))


def _note_renewal(runs: Runs, call: Call) -> None:
    for token in call.given["tokens"]:
        if token["run"] not in call.answer["lost"]:
            runs[token["run"]].renewals.append((call.began, token["fence"], call.proc))


def _note_release(runs: Runs, call: Call) -> None:
    if call.answer["done"]:
        run = runs[call.given["run"]]
        run.marks.append((call.ended, call.given["fence"] + 1))
        _note_ending(run, call, call.given["status"], is_first=True)


def _note_amend(runs: Runs, call: Call) -> None:
    run, status = runs[call.given["run"]], call.given["status"]
    if call.outcome == "ok" and call.answer["done"]:
        _note_ending(run, call, status, is_first=True)
    may_be_done = call.outcome == "unknown" or (call.outcome == "ok" and call.answer["done"])
    if may_be_done and status is not None and status not in ENDED:
        run.revivals += 1


def _note_read(runs: Runs, call: Call) -> None:
    if call.answer["run"] is not None:
        _note_record(runs, call, call.answer)


def _note_find(runs: Runs, call: Call) -> None:
    for record in call.answer["runs"]:
        _note_record(runs, call, record)


def _note_record(runs: Runs, call: Call, record: Mapping[str, Any]) -> None:
    run = runs[record["run"]]
    run.statuses.append((call.began, call.ended, record["status"]))
    run.seen.append(_entries(call, 0, (), record["length"]))


def _note_journal(runs: Runs, call: Call) -> None:
    runs[call.given["run"]].seen.append(_entries(call, call.given["at"], call.answer["entries"], None))


def _entries(call: Call, start: int, digests: Sequence[str], length: int | None) -> Entries:
    return Entries(start=start, digests=digests, length=length, began=call.began, ended=call.ended, by=call.proc)


_NOTES: dict[str, Callable[[Runs, Call], None]] = {
    "claim": _note_claims,
    "commit": _note_commit,
    "renew": _note_renewal,
    "release": _note_release,
    "amend": _note_amend,
    "read": _note_read,
    "find": _note_find,
    "read_journal": _note_journal,
}


def i1_no_run_is_lost(history: History) -> Iterator[str]:
    """What a submit answered with is in the store."""
    for call in history.calls:
        if call.verb == "submit" and call.outcome == "ok" and call.answer["run"] not in history.final:
            yield f"run {call.answer['run']} was submitted by {call.proc} and is gone"


def i2_one_run_per_key(history: History) -> Iterator[str]:
    """All submits with one key hear of one run, the first one's, and at most one of them made it."""
    submits = [call for call in history.calls if call.verb == "submit"]
    by_key: defaultdict[str, list[Call]] = defaultdict(list)
    for call in submits:
        if call.given["key"] is not None:
            by_key[call.given["key"]].append(call)
    for key, calls in by_key.items():
        heard = [call for call in calls if call.outcome == "ok"]
        if len(runs := {call.answer["run"] for call in heard}) > 1:
            yield f"key {key} has {len(runs)} runs: {', '.join(sorted(runs))}"
        if sum(call.answer["became"] == "created" for call in heard) > 1:
            yield f"key {key} was created more than once"
        there = {call.given["run"] for call in calls} & history.final.keys()
        if len(there) > 1:
            yield f"key {key} left {len(there)} runs in the store: {', '.join(sorted(there))}"
        yield from _wrong_conflicts(key, heard)


def _wrong_conflicts(key: str, heard: Sequence[Call]) -> Iterator[str]:
    agreed = {call.given["digest"] for call in heard if call.answer["became"] != "conflict"}
    if len(agreed) > 1:
        yield f"key {key} was accepted for different inputs"
    if any(call.answer["became"] == "conflict" and call.given["digest"] in agreed for call in heard):
        yield f"key {key} was refused for the very input that it stands for"


def i3_fences_grow(history: History) -> Iterator[str]:
    """A fence is given out once, and a later claim has a higher one."""
    for run_id, run in history.runs.items():
        fences = Counter(claim.fence for claim in run.claims)
        yield from (f"run {run_id}: fence {fence} was given out {n} times" for fence, n in fences.items() if n > 1)
        newest_began = -math.inf
        for claim in sorted(run.claims, key=lambda claim: claim.fence):
            if claim.ended < newest_began:
                yield f"run {run_id}: fence {claim.fence} was given out before a lower one"
            newest_began = max(newest_began, claim.began)
        final = history.final.get(run_id)
        if final is not None and run.claims and final.fence < max(fences):
            yield f"run {run_id}: fence {max(fences)} was given out, but the store ended at {final.fence}"


def i4_one_journal(history: History) -> Iterator[str]:
    """A position has one value for ever, and a journal never gets shorter."""
    for run_id, run in history.runs.items():
        final = history.final.get(run_id)
        values: dict[int, str] = dict(enumerate(final.journal)) if final is not None else {}
        for seen in run.seen:
            for at, value in enumerate(seen.digests, seen.start):
                if values.setdefault(at, value) != value:
                    yield f"run {run_id}: position {at} had two values, one seen by {seen.by}"
        yield from _shrinking(run_id, run)


def _shrinking(run_id: str, run: RunHistory) -> Iterator[str]:
    """Lengths in real time: what answered before another was begun must not be longer than that one's."""
    known = [seen for seen in run.seen if seen.length is not None]
    answered = sorted((max(seen.length or 0, seen.start + len(seen.digests)), seen.ended) for seen in run.seen)
    by_end = sorted(answered, key=lambda pair: pair[1])
    longest, place = 0, 0
    for seen in sorted(known, key=lambda seen: seen.began):
        while place < len(by_end) and by_end[place][1] < seen.began:
            longest = max(longest, by_end[place][0])
            place += 1
        if seen.length is not None and seen.length < longest:
            yield f"run {run_id}: its journal had {longest} entries and then {seen.length}"


def i5_commits_stay(history: History) -> Iterator[str]:
    """What a commit was told is written is in the final journal, at its place."""
    for run_id, run in history.runs.items():
        final = history.final.get(run_id)
        for commit in run.commits:
            if final is None or commit.answer["append"] not in WRITTEN:
                continue
            at, entries = commit.given["at"], tuple(commit.given["entries"])
            if final.journal[at : at + len(entries)] != entries:
                yield f"run {run_id}: entries that {commit.proc} committed at {at} are not in the journal"


def i6_only_the_newest_holder_writes(history: History) -> Iterator[str]:
    """Nobody writes or renews under a claim that is over: given up, ended, or followed by another, before the call."""
    for run_id, run in history.runs.items():
        done = [commit for commit in run.commits if commit.answer["append"] == "done"]
        writes = [(commit.began, commit.given["fence"], commit.proc) for commit in done] + run.renewals
        marks = sorted(run.marks)
        lowest, place = 0, 0
        for began, fence, by in sorted(writes):
            while place < len(marks) and marks[place][0] < began:
                lowest = max(lowest, marks[place][1])
                place += 1
            if fence < lowest:
                yield f"run {run_id}: {by} wrote or renewed with fence {fence}, which was over"
        yield from _fences_along(run_id, run)


def _fences_along(run_id: str, run: RunHistory) -> Iterator[str]:
    """Along the journal fences never fall, which holds for calls that overlap, too."""
    highest = 0
    writes = [call for call in run.commits if call.answer["append"] == "done" and call.given["entries"]]
    for commit in sorted(writes, key=lambda call: call.given["at"]):
        if commit.given["fence"] < highest:
            yield f"run {run_id}: position {commit.given['at']} has a lower fence than one before it"
        highest = max(highest, commit.given["fence"])


def i7_endings_absorb(history: History) -> Iterator[str]:
    """A run ends once, and whoever looks afterwards sees that ending; only an operator's requeue revives it."""
    for run_id, run in history.runs.items():
        if len(run.endings) > 1 + run.revivals:
            yield f"run {run_id} ended {len(run.endings)} times: {', '.join(run.endings)}"
        if run.revivals:
            continue
        ended = min(((end, status) for _, end, status in run.statuses if status in ENDED), default=None)
        if ended is None:
            continue
        for began, _, status in run.statuses:
            if began > ended[0] and status != ended[1]:
                yield f"run {run_id} was {ended[1]} and then {status}"
        final = history.final.get(run_id)
        if final is not None and final.status != ended[1]:
            yield f"run {run_id} was {ended[1]}, and in the end it is {final.status}"


def i11_one_place_for_each_run(history: History) -> Iterator[str]:
    """A run is held exactly if it is running (the store's own check knows about the queue)."""
    for run in history.final.values():
        if run.held != (run.status == "running"):
            yield f"run {run.run_id} is {run.status} and {'held' if run.held else 'not held'}"


def i12_no_innocent_is_charged(history: History) -> Iterator[str]:
    """Kills, pauses, outages and stops are not the runs' doing, nor is what a neighbour does."""
    for run in history.final.values():
        if run.charges and run.run_id not in history.guilty:
            yield f"run {run.run_id} has {run.charges} charges, though its code never blocked or killed"


def i13_the_guilty_are_out_and_nobody_else(history: History) -> Iterator[str]:
    """A run whose code blocks or kills each time is quarantined in the end, and no other run is."""
    for run in history.final.values():
        is_out, is_guilty = run.status == RunStatus.quarantined, run.run_id in history.guilty
        if is_out and not is_guilty:
            yield f"run {run.run_id} is quarantined, though its code never blocked or killed"
        if is_guilty and not is_out:
            yield f"run {run.run_id} is {run.status}, though its code blocks or kills its worker each time"
    yield from (f"run {run_id} is guilty and gone" for run_id in history.guilty - history.final.keys())


def i14_all_runs_end(history: History) -> Iterator[str]:
    """Once the faults have stopped, every run ends within the bound."""
    for run in history.final.values():
        if run.status not in ENDED:
            yield f"run {run.run_id} is still {run.status}"
    deadline = history.calm_s + history.bound_s
    for run_id, history_of_run in history.runs.items():
        ends = [end for _, end, status in history_of_run.statuses if status in ENDED]
        if history.calm_s > -math.inf and ends and min(ends) > deadline:
            yield f"run {run_id} ended {min(ends) - history.calm_s:.1f} s after the last fault"


Invariant = Callable[[History], Iterator[str]]
INVARIANTS: tuple[Invariant, ...] = (
    i1_no_run_is_lost,
    i2_one_run_per_key,
    i3_fences_grow,
    i4_one_journal,
    i5_commits_stay,
    i6_only_the_newest_holder_writes,
    i7_endings_absorb,
    i11_one_place_for_each_run,
    i12_no_innocent_is_charged,
    i13_the_guilty_are_out_and_nobody_else,
    i14_all_runs_end,
)


def check(history: History) -> list[str]:
    """Every breach of every invariant."""
    return [f"{invariant.__name__}: {breach}" for invariant in INVARIANTS for breach in invariant(history)]
