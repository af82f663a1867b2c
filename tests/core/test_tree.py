"""What becomes of children when their parent ends: the whole table of policies and states."""

from __future__ import annotations

from itertools import product

import pytest

from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.core.tree import Child, OnEnd, to_cancel


@pytest.mark.parametrize(("status", "on_end"), list(product(RunStatus, OnEnd)))
def test_a_live_child_ends_with_its_parent_if_its_policy_says_so(status: RunStatus, on_end: OnEnd) -> None:
    child = Child(run_id="c", status=status, on_end=on_end)
    assert to_cancel([child]) == (("c",) if on_end == "cancel" and not status.is_terminal else ())


def test_children_keep_their_order() -> None:
    children = [Child(run_id=name, status=RunStatus.waiting, on_end=OnEnd.cancel) for name in "cab"]
    assert to_cancel(children) == ("c", "a", "b")
