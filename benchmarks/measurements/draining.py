"""How fast a backlog goes, once all workers are at it: what one of them needs longer to start does not count."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.bench import Home
from benchmarks.tape import Note


def per_s(first: Sequence[Note], last: Sequence[Note], workers: int) -> float:
    """Jobs a second from when so many processes had begun one (all that ever did, if fewer) to the last one's end.

    If most were done by then, from the first beginning.
    """
    joined: dict[int, int] = {}
    for note in first:
        joined.setdefault(note.pid, note.at_ns)
    since_ns = sorted(joined.values())[:workers][-1]
    ends = [note.at_ns for note in last if note.at_ns > since_ns]
    if len(ends) < len(last) / 2:
        since_ns, ends = first[0].at_ns, [note.at_ns for note in last]
    return len(ends) / ((ends[-1] - since_ns) / 1e9)


def each_once(home: Home, what: str, count: int) -> tuple[list[Note], int]:
    """Wait for so many jobs: the first note of each, and how many came besides, since queues may do a job again."""
    found = home.wait_for(what, count)
    while lacking := count - len({note.key for note in found}):
        found = home.wait_for(what, len(found) + lacking)
    first: dict[str, Note] = {}
    for note in found:
        first.setdefault(note.key, note)
    return list(first.values()), len(found) - count
