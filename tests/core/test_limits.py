"""How large a run may grow: each limit at its edge, each sentence word for word."""

from __future__ import annotations

import pytest

from pyrula_runtime.core.limits import entry_fault, journal_fault, journal_share, passes_warning, status_fault

MB = 1_000_000
ENTRIES, BYTES = 51_200, 50 * MB


def test_an_entry_may_have_a_megabyte() -> None:
    assert entry_fault("the result", MB) is None
    assert entry_fault("the result of step 'a' (a#1)", MB + 1) == (
        "the result of step 'a' (a#1) has 1,000,001 bytes of JSON and the limit is 1,000,000; keep it in a store of "
        "your own and pass a reference"
    )


@pytest.mark.parametrize(("entries", "size"), [(ENTRIES + 1, BYTES), (ENTRIES, BYTES + 1), (ENTRIES + 1, 0)])
def test_a_journal_beyond_either_limit_is_refused(entries: int, size: int) -> None:
    assert journal_fault(ENTRIES, BYTES) is None
    assert journal_fault(entries, size) == (
        f"the journal would have {entries:,} entries and {size:,} bytes; its limits are 51,200 and 50,000,000: split "
        f"the work into several runs, or go on as new"
    )


@pytest.mark.parametrize(
    ("before", "added", "warns"),
    [
        ((0, 0), (1, 100), False),
        ((10_238, 0), (1, 0), False),
        ((10_239, 0), (1, 0), True),
        ((10_240, 0), (1, 0), False),
        ((0, 10 * MB - 2), (0, 1), False),
        ((0, 10 * MB - 1), (0, 1), True),
        ((0, 10 * MB), (0, 1), False),
        ((10_240, 10 * MB - 1), (1, 1), True),
        ((0, 0), (ENTRIES, 0), True),
        ((0, 0), (0, BYTES), True),
    ],
)
def test_the_warning_comes_when_a_fifth_is_reached_and_only_then(
    before: tuple[int, int], added: tuple[int, int], warns: object
) -> None:
    assert passes_warning(*before, *added) is warns


def test_a_journal_that_grows_by_one_is_warned_about_once() -> None:
    assert sum(passes_warning(entries, 0, 1, 0) for entries in range(ENTRIES)) == 1


@pytest.mark.parametrize(
    ("entries", "size", "share"), [(0, 0, 0), (10_240, 0, 0.2), (1, 25 * MB, 0.5), (ENTRIES, BYTES, 1), (512, 0, 0.01)]
)
def test_the_share_of_a_journal_is_that_of_the_nearer_limit(entries: int, size: int, share: float) -> None:
    assert journal_share(entries, size) == share


def test_a_status_is_small() -> None:
    assert status_fault(16_000) is None
    assert status_fault(16_001) == (
        "a status has at most 16,000 bytes of JSON, and this one has 16,001: show less of it"
    )
