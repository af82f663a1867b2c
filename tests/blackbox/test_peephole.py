"""A peephole stays open on a living worker's box, sees what it writes, and never costs anybody a lock."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyrula_runtime.blackbox import NOBODY, BlackBox, Executing, Peephole, Place, layout, read_box
from tests.blackbox.holder import STORE, Holder


def opened(path: Path) -> Peephole:
    peephole = Peephole.open(path)
    assert peephole is not None
    return peephole


@pytest.fixture
def watched(holder: Holder) -> Iterator[Peephole]:
    peephole = opened(holder.create("w-1"))
    yield peephole
    peephole.close()


def test_it_sees_each_thing_that_the_worker_writes(holder: Holder, watched: Peephole) -> None:
    assert (watched.incarnation, watched.role, watched.pid) == ("w-1", "plain", holder.pid)
    assert (watched.look().lane, watched.threads()) == (NOBODY, ())
    holder.do(
        "place = Place(run_id='R1', workflow='orders', step='charge', op_id='charge#1')\n"
        "box.beat_watch(85); box.enter_lane(place, 70_000_000); box.enter_thread(place, 71_000_000)"
    )
    glance, threads = watched.look(), watched.threads()
    assert glance.watch_beat_ms == 85
    assert isinstance(glance.lane, Executing)
    assert (glance.lane.op_id, glance.lane.since_ms) == ("charge#1", 70)
    assert threads is not None
    assert [(span.since_ms, span.thread) for span in threads] == [(71, holder.pid)]
    holder.do("box.leave_lane()")
    assert watched.look().lane is NOBODY


def test_it_sees_the_last_words_of_the_dead_even_when_the_file_is_gone(holder: Holder, watched: Peephole) -> None:
    holder.do("box.enter_lane(Place(run_id='R1', workflow='orders'), 70)")
    holder.kill()
    for path in layout.boxes_in(holder.directory).iterdir():
        path.unlink()
    lane = watched.look().lane
    assert isinstance(lane, Executing)
    assert lane.run_id == "R1"


def test_closing_it_frees_no_lock(holder: Holder, box: BlackBox) -> None:
    for path in (box.path, holder.create("w-1")):
        opened(path).close()
        assert holder.do(f"answer = read_box(Path({str(path)!r})).held") is True
        view = read_box(path)
        assert view is not None
        assert view.held


def test_the_own_box_is_seen_and_stays_open(box: BlackBox) -> None:
    opened(box.path).close()
    box.enter_lane(Place(run_id="R1", workflow="orders"), 70)
    assert isinstance(opened(box.path).look().lane, Executing)


def test_torn_records_are_unknown(box: BlackBox, tmp_path: Path) -> None:
    slot = box.enter_thread(Place(run_id="R1", workflow="orders"), 70)
    image = bytearray(box.path.read_bytes())
    for at in (layout.WATCH_BEAT_AT, layout.LANE_AT, layout.THREADS_AT + slot * layout.SPAN_SIZE):
        image[at + 5] ^= 1
    torn = tmp_path / "torn.box"
    torn.write_bytes(image)
    peephole = opened(torn)
    glance = peephole.look()
    assert (glance.watch_beat_ms, glance.lane, glance.control_beat_ms) == (None, None, 0)
    assert peephole.threads() is None
    peephole.close()


def test_an_overflown_table_of_threads_is_unknown(box: BlackBox) -> None:
    for _ in range(layout.THREAD_SLOTS + 1):
        box.enter_thread(Place(run_id="R1", workflow="orders"), 70)
    assert opened(box.path).threads() is None


def test_there_is_none_where_no_box_is(directory: Path, holder: Holder, tmp_path: Path) -> None:
    whole = holder.create("w-1").read_bytes()
    contents = {
        "empty": b"",
        "short": whole[:-1],
        "zeros": bytes(len(whole)),
        "newer": layout.PREFIX.pack(layout.MAGIC, layout.VERSION + 1) + whole[layout.PREFIX.size :],
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        assert Peephole.open(tmp_path / name) is None
    os.mkfifo(tmp_path / "pipe")
    assert Peephole.open(tmp_path / "pipe") is None
    assert Peephole.open(tmp_path / "never made") is None


def test_a_role_is_kept(directory: Path) -> None:
    cell = BlackBox.create(directory, incarnation="c", worker_id="w", store_identity=STORE, now_ms=1, role="cell")
    view = read_box(cell.path)
    assert view is not None
    assert (view.role, opened(cell.path).role) == ("cell", "cell")
    cell.close()
