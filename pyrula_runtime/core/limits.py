"""How large a run may grow, and the sentences that say so.

An entry may have 1 MB, a journal 50 MB or 51,200 entries. Larger things belong into a store of their own, with a
reference in the journal: every worker that resumes the run has to read all of it. A warning comes at a fifth, while
there is time to change the workflow.
"""

from __future__ import annotations

MAX_ENTRY_BYTES = 1_000_000
MAX_JOURNAL_BYTES = 50_000_000
MAX_JOURNAL_ENTRIES = 51_200
WARN_SHARE = 0.2
# it is written anew each time, and read with every listing
MAX_STATUS_BYTES = 16_000
# a run's priority, of either sign
HIGHEST_PRIORITY = 1_000


def entry_fault(what: str, size: int) -> str | None:
    """Why a value of this many bytes cannot be journaled, or None."""
    if size <= MAX_ENTRY_BYTES:
        return None
    return (
        f"{what} has {size:,} bytes of JSON and the limit is {MAX_ENTRY_BYTES:,}; keep it in a store of your own and "
        f"pass a reference"
    )


def journal_fault(entries: int, size: int) -> str | None:
    """Why a journal cannot grow to this many entries and bytes, or None."""
    if entries <= MAX_JOURNAL_ENTRIES and size <= MAX_JOURNAL_BYTES:
        return None
    return (
        f"the journal would have {entries:,} entries and {size:,} bytes; its limits are {MAX_JOURNAL_ENTRIES:,} and "
        f"{MAX_JOURNAL_BYTES:,}: split the work into several runs, or go on as new"
    )


def journal_share(entries: int, size: int) -> float:
    """How much of what a journal may have this one has: 1 is all, from 0.2 on there is a warning."""
    return round(max(entries / MAX_JOURNAL_ENTRIES, size / MAX_JOURNAL_BYTES), 3)


def status_fault(size: int) -> str | None:
    """Why a status of so many bytes cannot be shown, or None."""
    if size <= MAX_STATUS_BYTES:
        return None
    return f"a status has at most {MAX_STATUS_BYTES:,} bytes of JSON, and this one has {size:,}: show less of it"


def passes_warning(entries: int, size: int, added_entries: int, added_size: int) -> bool:
    """Whether this growth crosses a fifth of a limit (true once in the life of a journal for each limit)."""

    def crosses(before: int, added: int, limit: int) -> bool:
        return before < limit * WARN_SHARE <= before + added

    return crosses(entries, added_entries, MAX_JOURNAL_ENTRIES) or crosses(size, added_size, MAX_JOURNAL_BYTES)
