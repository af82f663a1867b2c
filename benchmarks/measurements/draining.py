"""How fast a backlog goes, once all workers are at it: what one of them needs longer to start does not count."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.bench import Home, Unfit
from benchmarks.tape import Note


def per_s(first: Sequence[Note], last: Sequence[Note], workers: int) -> float:
    """Jobs a second from when so many processes had begun one (all that ever did, if fewer) to the last one's end."""
    joined: dict[int, int] = {}
    for note in first:
        joined.setdefault(note.pid, note.at_ns)
    since_ns = sorted(joined.values())[:workers][-1]
    ends = [note.at_ns for note in last if note.at_ns > since_ns]
    return len(ends) / ((ends[-1] - since_ns) / 1e9)


def once_each(home: Home, count: int) -> list[Note]:
    """The beginnings, which only count if each job had one."""
    begun = home.tape.of("begin")
    if len(begun) != count or len({note.key for note in begun}) != count:
        raise Unfit(f"{len(begun)} beginnings of {len({note.key for note in begun})} jobs instead of {count}")
    return begun
