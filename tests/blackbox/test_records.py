"""Records: what was written is what is read, and what is damaged reads as unknown or as it was, never as another."""

from __future__ import annotations

import tempfile
import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pyrula_runtime.blackbox import (
    NO_SLOT,
    NOBODY,
    BlackBox,
    BoxView,
    Executing,
    Held,
    Nobody,
    Peephole,
    Phase,
    Place,
    layout,
    read_box,
)
from pyrula_runtime.blackbox.holding import glimpse
from tests.blackbox.holder import STORE

MANY = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
RUN_IDS = st.text("ABCabc019._:-", min_size=1, max_size=128)
TIMES = st.integers(0, 2**64 - 1)
STAMPS = st.integers(0, 2**64 - 2)
PLACES = st.builds(
    Place,
    run_id=RUN_IDS,
    workflow=st.text("aé_1", max_size=32),
    step=st.text("aé/#()1", max_size=48),
    op_id=st.text("aé/#()1", max_size=112),
)
WORDS = (
    "control_beat_ms",
    "lane_beat_ms",
    "store_lock_since_ms",
    "lane_thread",
    "watch_beat_ms",
    "watch_thread",
    "gc_since_ms",
    "gc_total_ms",
)
THREAD_IDS = st.integers(0, 2**22)


def created(directory: Path) -> BlackBox:
    return BlackBox.create(directory, incarnation="own", worker_id="w", store_identity=STORE, now_ms=1)


def view_of(path: Path) -> BoxView:
    view = read_box(path)
    assert view is not None
    return view


def executing(place: Place, at_ns: int, thread: int) -> Executing:
    return Executing(
        run_id=place.run_id,
        workflow=place.workflow,
        step=place.step,
        op_id=place.op_id,
        entries=at_ns,
        thread=thread,
    )


def peephole_of(path: Path) -> Peephole:
    peephole = Peephole.open(path)
    assert peephole is not None
    return peephole


class BoxMachine(RuleBasedStateMachine):
    """A box does what a few dicts would do, through any sequence of writes."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.box = created(Path(self.folder.name))
        self.peephole = peephole_of(self.box.path)
        self.words = dict.fromkeys(WORDS, 0)
        self.phase: tuple[Phase, str] = (Phase.starting, "")
        self.lane: Executing | Nobody = NOBODY
        self.threads: dict[int, Executing] = {}
        self.runs: dict[int, Held] = {}

    @rule(ms=TIMES)
    def beat_control(self, ms: int) -> None:
        self.box.beat_control(ms)
        self.words["control_beat_ms"] = ms

    @rule(ms=TIMES)
    def beat_lane(self, ms: int) -> None:
        self.box.beat_lane(ms)
        self.words["lane_beat_ms"] = ms

    @rule(ms=TIMES)
    def lock_tenure(self, ms: int) -> None:
        self.box.lock_tenure(ms)
        self.words["store_lock_since_ms"] = ms

    @rule(thread_id=THREAD_IDS)
    def lane_thread(self, thread_id: int) -> None:
        self.box.lane_thread(thread_id)
        self.words["lane_thread"] = thread_id
        if isinstance(self.lane, Executing):
            self.lane = replace(self.lane, thread=thread_id)

    @rule(thread_id=THREAD_IDS, ms=TIMES)
    def watch(self, thread_id: int, ms: int) -> None:
        self.box.watch_thread(thread_id)
        self.box.beat_watch(ms)
        self.words |= {"watch_thread": thread_id, "watch_beat_ms": ms}

    @rule(since_ms=TIMES, total_ms=TIMES)
    def collecting(self, since_ms: int, total_ms: int) -> None:
        self.box.collecting(since_ms, total_ms)
        self.words |= {"gc_since_ms": since_ms, "gc_total_ms": total_ms}

    @rule(phase=st.sampled_from(Phase), reason=st.text("aé ", max_size=100))
    def set_phase(self, phase: Phase, reason: str) -> None:
        self.box.set_phase(phase, reason)
        self.phase = (phase, reason)

    @rule(place=PLACES, at_ns=STAMPS)
    def enter_lane(self, place: Place, at_ns: int) -> None:
        self.box.enter_lane(place, at_ns)
        self.lane = executing(place, at_ns, self.words["lane_thread"])

    @rule()
    def leave_lane(self) -> None:
        self.box.leave_lane()
        self.lane = NOBODY

    @rule(place=PLACES, at_ns=STAMPS)
    def enter_thread(self, place: Place, at_ns: int) -> None:
        slot = self.box.enter_thread(place, at_ns)
        assert slot not in self.threads
        self.threads[slot] = executing(place, at_ns, threading.get_native_id())

    @rule(data=st.data())
    def leave_thread(self, data: st.DataObject) -> None:
        if self.threads:
            slot = data.draw(st.sampled_from(sorted(self.threads)))
            del self.threads[slot]
            self.box.leave_thread(slot)

    @rule(run_id=RUN_IDS, fence=TIMES)
    def hold(self, run_id: str, fence: int) -> None:
        slot = self.box.hold(run_id, fence)
        assert slot not in self.runs
        self.runs[slot] = Held(run_id=run_id, fence=fence)

    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        if self.runs:
            slot = data.draw(st.sampled_from(sorted(self.runs)))
            del self.runs[slot]
            self.box.drop(slot)

    @invariant()
    def reads_as_written(self) -> None:
        view = view_of(self.box.path)
        assert {name: getattr(view, name) for name in self.words} == self.words
        assert (view.phase, view.exit_reason) == self.phase
        assert view.lane == self.lane
        assert view.threads == tuple(self.threads[slot] for slot in sorted(self.threads))
        assert view.in_flight == tuple(self.runs[slot] for slot in sorted(self.runs))
        assert view.threads_complete
        assert view.in_flight_complete
        glance = self.peephole.look()
        assert {name: getattr(glance, name) for name in WORDS} == self.words
        assert (glance.lane, self.peephole.threads()) == (self.lane, view.threads)
        lane = self.lane
        assert self.box.lane_busy_since_ms() == (lane.since_ms if isinstance(lane, Executing) else 0)

    def teardown(self) -> None:
        self.box.close()
        self.folder.cleanup()


TestBox = BoxMachine.TestCase
TestBox.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


def fill(box: BlackBox, mark: str, ms: int) -> bytes:
    """Write every kind of record, and give the box's bytes."""
    place = Place(run_id=mark * 26, workflow=mark, step=mark * 9, op_id=mark * 11)
    box.set_phase(Phase.draining, mark)
    box.beat_control(ms)
    box.beat_lane(ms)
    box.lock_tenure(ms)
    box.lane_thread(ms)
    box.watch_thread(ms)
    box.beat_watch(ms)
    box.collecting(ms, ms)
    box.enter_lane(place, ms)
    for number in range(3):
        box.hold(f"{mark}{number}", ms)
        box.enter_thread(place, ms)
    seen = glimpse(box.path, layout.SIZE)
    assert seen is not None
    return seen.data


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """A box at two times, with nothing in common but the head and what is free."""
    box = created(tmp_path_factory.mktemp("images"))
    before = fill(box, "x", 0x1111_1111)
    for slot in range(3):
        box.drop(slot)
        box.leave_thread(slot)
    after = fill(box, "y", 0x2222_2222)
    box.close()
    return before, after


def seen_as(image: bytes | bytearray, folder: Path) -> BoxView | None:
    path = folder / "damaged.box"
    path.write_bytes(image)
    return read_box(path)


def facts(view: BoxView) -> list[tuple[object, ...]]:
    """Each record's meaning: all of it, or only that it is unknown."""
    words = [(getattr(view, name),) for name in WORDS]
    lane = view.lane
    lane = replace(lane, thread=0) if isinstance(lane, Executing) else lane  # that is a record of its own
    return [*words, (lane,), (view.phase, view.exit_reason)]


UNKNOWN = [*[(None,)] * (len(WORDS) + 1), (None, "")]


def assert_nothing_invented(found: BoxView | None, *truths: BoxView) -> None:
    """Every record says what one of the truths says, or that it is unknown; gaps in tables are admitted."""
    if found is None:
        return
    assert found.incarnation == truths[0].incarnation
    for index, fact in enumerate(facts(found)):
        assert fact in [UNKNOWN[index], *(facts(truth)[index] for truth in truths)]
    for table in ("threads", "in_flight"):
        rows, told = set(getattr(found, table)), [set(getattr(truth, table)) for truth in truths]
        assert rows <= set.union(*told)
        if len(rows) < min(map(len, told)):
            assert not getattr(found, f"{table}_complete")


# Where most of what is written lies; damage elsewhere mostly hits free slots.
EDGES = (0, layout.HEAD_AT, layout.PHASE_AT, layout.CONTROL_BEAT_AT, layout.LANE_AT, layout.THREADS_AT, layout.RUNS_AT)
PLACES_IN_FILE = st.one_of(
    st.builds(int.__add__, st.sampled_from(EDGES), st.integers(0, 3 * layout.SPAN_SIZE)),
    st.integers(0, layout.SIZE - 1),
)


@MANY
@given(flips=st.dictionaries(PLACES_IN_FILE, st.integers(1, 255), min_size=1, max_size=8))
def test_flipped_bytes_invent_nothing(images: tuple[bytes, bytes], tmp_path: Path, flips: dict[int, int]) -> None:
    truth = seen_as(images[0], tmp_path)
    assert truth is not None
    image = bytearray(images[0])
    for at, bits in flips.items():
        image[at] ^= bits
    assert_nothing_invented(seen_as(image, tmp_path), truth)


@MANY
@given(cuts=st.lists(PLACES_IN_FILE, min_size=1, max_size=6, unique=True))
def test_halves_of_two_writes_invent_nothing(images: tuple[bytes, bytes], tmp_path: Path, cuts: list[int]) -> None:
    truths = [seen_as(image, tmp_path) for image in images]
    assert None not in truths
    marks = [0, *sorted(cuts), layout.SIZE]
    image = b"".join(images[number % 2][start:end] for number, (start, end) in enumerate(pairwise(marks)))
    assert_nothing_invented(seen_as(image, tmp_path), *(truth for truth in truths if truth))


def test_every_single_flip_in_the_lane_record_is_noticed(images: tuple[bytes, bytes], tmp_path: Path) -> None:
    for at in range(layout.LANE_AT, layout.FULL_AT):
        image = bytearray(images[0])
        image[at] ^= 1
        view = seen_as(image, tmp_path)
        assert view is not None
        assert view.lane is None


@pytest.mark.parametrize("size", [0, 1, layout.HEAD_AT, layout.SIZE // 2, layout.SIZE - 1])
def test_a_box_cut_short_is_none(images: tuple[bytes, bytes], tmp_path: Path, size: int) -> None:
    assert seen_as(images[0][:size], tmp_path) is None
    assert seen_as(images[0][:size] + bytes(layout.SIZE - size), tmp_path) is None or size > layout.RUNS_AT


def test_full_tables_say_so_for_good(box: BlackBox) -> None:
    place = Place(run_id="R", workflow="orders")
    threads = [box.enter_thread(place, number) for number in range(layout.THREAD_SLOTS)]
    runs = [box.hold(f"R{number}", number) for number in range(layout.RUN_SLOTS)]
    full = view_of(box.path)
    assert (len(full.threads), len(full.in_flight)) == (layout.THREAD_SLOTS, layout.RUN_SLOTS)
    assert full.threads_complete
    assert full.in_flight_complete
    assert (box.hold("one more", 1), view_of(box.path).in_flight_complete) == (NO_SLOT, False)
    assert view_of(box.path).threads_complete
    assert (box.enter_thread(place, 1), view_of(box.path).threads_complete) == (NO_SLOT, False)
    for slot in (*threads, NO_SLOT):
        box.leave_thread(slot)
    for slot in (*runs, NO_SLOT):
        box.drop(slot)
    view = view_of(box.path)
    assert (view.threads, view.threads_complete, view.in_flight, view.in_flight_complete) == ((), False, (), False)


@pytest.mark.parametrize("run_id", ["", "x" * 129, "a\0b"])
def test_half_an_identity_is_refused(box: BlackBox, run_id: str) -> None:
    with pytest.raises(ValueError, match="1 to 128 bytes"):
        box.hold(run_id, 1)
    with pytest.raises(ValueError, match="1 to 128 bytes"):
        Place(run_id=run_id, workflow="orders")
    assert box.hold("fits", 1) == 0  # the refusal took no slot


@given(name=st.text(max_size=200), other=st.text(max_size=200))
def test_shortened_names_fit_and_stay_different(name: str, other: str) -> None:
    short = layout.shortened(name, 64)
    assert len(short) <= 64
    if len(name.encode()) <= 64 and "\0" not in name:
        assert short.decode() == name
    if name != other and "\0" not in name + other:
        assert short != layout.shortened(other, 64)


def test_a_name_from_a_strange_environment_is_kept_as_well_as_it_goes() -> None:
    assert layout.shortened("w\udcff\0-1", 64) == b"w??-1"
    assert layout.shortened("é" * 40, 64).decode().startswith("é" * 27 + "~")
