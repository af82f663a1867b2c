"""Identities: run ids that sort by age, operations numbered by the code's own structure and nothing else."""

from __future__ import annotations

import hashlib
import string
from collections.abc import Callable
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.core.ids import (
    Branch,
    checked_name,
    checked_run_id,
    derived_bytes,
    event_id_of,
    event_key,
    input_digest,
    run_id,
)
from tests.core.patience import patient

CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
entropies = st.binary(min_size=10, max_size=10)
times_ms = st.integers(0, 2**48 - 1)


# run ids


def decoded(value: str) -> int:
    number = 0
    for character in value:
        number = number * 32 + CROCKFORD.index(character)
    return number


@patient
@given(now_ms=times_ms, entropy=entropies)
def test_a_run_id_is_its_time_and_entropy_in_crockfords_base_32(now_ms: int, entropy: bytes) -> None:
    value = run_id(now_ms, entropy)
    assert len(value) == 26
    assert decoded(value[:10]) == now_ms
    assert decoded(value[10:]).to_bytes(10, "big") == entropy
    assert checked_run_id(value) == value


@patient
@given(earlier=times_ms, later=times_ms, first=entropies, second=entropies)
def test_run_ids_sort_by_time_whatever_their_entropy(earlier: int, later: int, first: bytes, second: bytes) -> None:
    ids = run_id(earlier, first), run_id(later, second)
    assert (ids[0] < ids[1]) == ((earlier, first) < (later, second))


def test_only_ten_bytes_of_entropy_are_used() -> None:
    assert run_id(7, bytes(range(32))) == run_id(7, bytes(range(10)))


@pytest.mark.parametrize("value", ["a", "7", "order-2024.05:eu_1", "x" * 128])
def test_ids_that_a_caller_may_choose(value: str) -> None:
    assert checked_run_id(value) == value


@pytest.mark.parametrize(
    "value", ["", "x" * 129, "-a", ".a", "_a", ":a", "a b", "a\n", "a/b", "a#1", "ä", "a\0", "٣", "{a}", None, 7]
)
def test_ids_that_are_refused_with_the_rule(value: object) -> None:
    with pytest.raises(UsageError) as refusal:
        checked_run_id(value)
    assert str(refusal.value) == (
        f"run id {value!r} must be 1 to 128 letters, digits, '.', '_', ':' or '-' and begin with a letter or digit"
    )


@patient
@given(value=st.text(string.printable + "äß٣", max_size=130))
def test_an_id_is_accepted_exactly_if_the_rule_says_so(value: str) -> None:
    plain = set(string.ascii_letters + string.digits)
    fits = 1 <= len(value) <= 128 and value[0] in plain and set(value) <= plain | set("._:-")
    if fits:
        assert checked_run_id(value) == value
    else:
        with pytest.raises(UsageError):
            checked_run_id(value)


# digests and derived bytes


def test_the_digest_of_an_input_never_changes() -> None:
    written = hashlib.blake2b(b'order\0{"n":1}', digest_size=16).hexdigest()
    assert input_digest("order", b'{"n":1}') == written == "5ebb6b154fa4a90cd9ac4c78bcddfcf2"


def test_the_digest_tells_workflow_and_input_apart() -> None:
    same = input_digest("order", b"1")
    assert same not in (input_digest("order", b"2"), input_digest("orders", b"1"), input_digest("order1", b""))


@patient
@given(runs=st.tuples(st.text("a:b", min_size=1), st.text("a:b", min_size=1)), ops=st.tuples(st.text("a:b"), st.text()))
def test_derived_bytes_belong_to_one_operation_of_one_run(runs: tuple[str, str], ops: tuple[str, str]) -> None:
    pairs = [(run, op) for run in runs for op in ops]
    assert len({derived_bytes(run, op) for run, op in pairs}) == len(set(pairs))


def test_derived_bytes_are_enough_for_a_uuid_and_stay_the_same() -> None:
    derived = derived_bytes("01J", "uuid4#1")
    assert len(derived) == 32
    assert derived.hex() == "c319473b8f995c728ea488377d5e9cfb05ef895055b957d208bf9ba0f88647a5"
    assert derived != derived_bytes("01J", "uuid4#2")
    assert UUID(bytes=derived[:16], version=4).version == 4


# branches


def test_operations_are_numbered_by_name_within_their_branch() -> None:
    root = Branch()
    assert [root.op_id(name) for name in ("charge", "ship", "charge")] == ["charge#1", "ship#1", "charge#2"]
    first, second = root.fork("ship_all"), root.fork("ship_all")
    assert [first.op_id("charge"), second.op_id("charge"), first.op_id("charge")] == [
        "ship_all()#1/charge#1",
        "ship_all()#2/charge#1",
        "ship_all()#1/charge#2",
    ]
    assert first.fork("pack").op_id("weigh") == "ship_all()#1/pack()#1/weigh#1"
    assert root.op_id("charge") == "charge#3"


def test_branches_of_other_names_shift_nobodys_numbers() -> None:
    root = Branch()
    root.fork("Library._keep_alive")
    assert root.fork("ship_all").op_id("charge") == "ship_all()#1/charge#1"


def test_no_name_can_pass_for_a_branch() -> None:
    root = Branch()
    ids = [root.op_id("pack()#1/weigh"), root.fork("pack").op_id("weigh"), root.op_id("pack()"), root.op_id("50%")]
    assert ids == ["pack()#1%2Fweigh#1", "pack()#1/weigh#1", "pack()#2", "50%25#1"]


# A tree of calls: a name is an operation, a pair a fork with what is called in it.
names = st.sampled_from(["a", "b", "a()", "a#1", "a()#1/b", "a/b", "/", "%2F", "a%2Fb", ""]) | st.text(max_size=3)
Call = str | tuple[str, list["Call"]]
trees: st.SearchStrategy[list[Call]] = st.recursive(
    st.lists(names, max_size=5),
    lambda inner: st.lists(names | st.tuples(names, inner), max_size=5),
    max_leaves=30,
)
Place = tuple[int, ...]


def numbered(tree: list[Call], pick: Callable[[int], int]) -> dict[Place, str]:
    """Make every call of the tree, the branches taking turns as `pick` says; the id given at each place."""
    ids: dict[Place, str] = {}
    lines: list[tuple[Place, Branch, list[Call]]] = [((), Branch(), tree)]
    made = [0]
    while lines:
        chosen = pick(len(lines))
        place, branch, calls = lines[chosen]
        if made[chosen] == len(calls):
            del lines[chosen], made[chosen]
            continue
        here, call = (*place, made[chosen]), calls[made[chosen]]
        made[chosen] += 1
        if isinstance(call, str):
            ids[here] = branch.op_id(call)
        else:
            lines.append((here, branch.fork(call[0]), call[1]))
            made.append(0)
    return ids


@patient
@given(tree=trees)
def test_no_two_operations_of_a_tree_have_one_id(tree: list[Call]) -> None:
    ids = numbered(tree, lambda count: count - 1)
    assert len(set(ids.values())) == len(ids)


@patient
@given(tree=trees, random=st.randoms(use_true_random=False))
def test_numbers_depend_only_on_the_calls_within_the_branch(tree: list[Call], random: Random) -> None:
    depth_first = numbered(tree, lambda count: count - 1)
    assert numbered(tree, random.randrange) == depth_first
    assert numbered(tree, lambda _count: 0) == depth_first
    emptied: list[Call] = [call if isinstance(call, str) else (call[0], []) for call in tree]
    assert numbered(emptied, random.randrange) == {
        place: each for place, each in depth_first.items() if len(place) == 1
    }


@pytest.mark.parametrize("name", ["charge", "_x", "pack item-2", "a.b:c", "ä" * 128])
def test_names_that_workflows_and_steps_may_have(name: str) -> None:
    assert checked_name(name, "step") == name


@pytest.mark.parametrize("name", ["", " x", "-x", "x" * 129, "a/b", "a\n", "<lambda>", None, 7])
def test_names_that_are_refused_with_the_rule(name: object) -> None:
    with pytest.raises(UsageError, match=r"^step name .* must be 1 to 128 letters, digits"):
        checked_name(name, "step")


def test_an_events_id_is_one_of_its_name() -> None:
    assert event_key("order", "created/A-17") != event_key("order.created", "A-17")
    assert event_id_of("order", event_key("order", "created/A-17")) == "created/A-17"
