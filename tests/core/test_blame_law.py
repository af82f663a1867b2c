"""The law of blame over random histories: an innocent run is never charged, a guilty one is out after its budget."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pyrula_runtime.core.blame import NOTHING, Budget, Cause, Death, judged
from tests.core.deaths import HOUR_MS, ME, OTHER, OWN, after, at_step, death, told


def test_a_run_that_crashes_its_workers_is_out_within_its_budget() -> None:
    """Among neighbours it is only marked; alone it is charged for that too; and then it is out."""
    among = death(Cause.crashed, at_step(), at_step(OTHER), in_flight=(ME, OTHER))
    in_cell = death(Cause.crashed, at_step(), cell=True)
    history = [told(after(among, *(in_cell,) * times)) for times in range(4)]
    assert history == [(0, True, True), (2, False, True), (1, False, True), (1, False, False)]
    final = after(among, *(in_cell,) * 3)
    assert final.error is not None
    assert final.error.detail["charges"] == 4
    # its neighbour was executing too: it clears itself in a cell of its own, uncharged
    assert told(after(among, run_id=OTHER)) == (0, True, True)


STEPS = st.sampled_from(["pay", "ship", ""])
NEIGHBOURS = st.frozensets(st.sampled_from(["a", "b"]), max_size=2)
AGES = st.integers(0, HOUR_MS // 2)


@st.composite
def innocent_deaths(draw: st.DrawFn) -> Death:
    """A death that an innocent run may be near: never its own block, never alone with what it did itself."""
    cause, cell = draw(st.sampled_from(Cause)), draw(st.booleans())
    neighbours = frozenset() if cell else draw(NEIGHBOURS)
    executes = draw(st.booleans())
    if cause in OWN and (cell or (executes and not neighbours)):
        cause = Cause.killed
    executing = [at_step(run_id, draw(STEPS)) for run_id in sorted(neighbours) if draw(st.booleans())]
    if executes:
        executing.append(at_step(ME, draw(STEPS)))
    in_flight = {*neighbours, *([ME] if draw(st.booleans()) or executes else [])}
    # a GIL kept in a cell is the doing of its only run
    guilty = draw(st.sampled_from(["", *([] if cell else [None]), *sorted(neighbours)]))
    known = draw(st.integers(0, 4)) > 0
    one = death(cause, *executing, in_flight=in_flight, cell=cell, guilty=guilty)
    return one if known else replace(one, executing=None)


def kills_at_most_twice(deaths: Iterable[Death]) -> list[Death]:
    """The same deaths without what would be a third kill of a cell from outside in the same step."""
    kept: list[Death] = []
    kills: dict[str, int] = {}
    for one in deaths:
        mine = [each.op_id for each in one.executing or () if each.run_id == ME]
        if one.in_cell and mine and one.cause in (Cause.killed, Cause.store_frozen):
            kills[mine[0]] = kills.get(mine[0], 0) + 1
            if kills[mine[0]] > 2:
                continue
        kept.append(one)
    return kept


@given(st.lists(innocent_deaths(), max_size=40), st.lists(AGES, min_size=40, max_size=40), st.integers(0, 3))
def test_law_an_innocent_run_is_never_charged_over_any_history(
    deaths: list[Death], pauses: list[int], max_retries: int
) -> None:
    record, now_ms = NOTHING, 0
    for one, pause_ms in zip(kills_at_most_twice(deaths), pauses, strict=False):
        now_ms += pause_ms
        dated = replace(one, evidence=replace(one.evidence, at_ms=now_ms))
        judgement = judged(ME, record, dated, Budget(max_retries=max_retries))
        assert (judgement.charged, judgement.error) == (0, None)
        record = judgement.record


@given(st.lists(innocent_deaths(), max_size=6), st.sampled_from(OWN), st.integers(0, 5))
def test_law_a_guilty_run_is_out_after_its_budget_whatever_else_happens(
    deaths: list[Death], cause: Cause, max_retries: int
) -> None:
    budget = Budget(max_retries=max_retries)
    in_cell = death(cause, at_step(), cell=True)
    judgements = [
        after(*kills_at_most_twice(deaths), *(in_cell,) * times, budget=budget) for times in range(max_retries + 2)
    ]
    assert any(each.error is not None for each in judgements)
