"""Whether a holder is dead: told by its record lock alone, whatever was forked, stopped, linked or numbered alike."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pyrula_runtime.blackbox import (
    BlackBox,
    BoxView,
    Executing,
    Held,
    Phase,
    find_dead,
    layout,
    read_box,
    remove,
)
from pyrula_runtime.runtime_dir import boot_id
from tests.blackbox.holder import STORE, Holder, wait_gone

WAIT_FOR_SIGNAL = "signal.pause()"


def dead_in(directory: Path, store: str = STORE) -> list[BoxView]:
    return find_dead(directory, boot_id=boot_id(), store_identity=store)


def incarnations(views: list[BoxView]) -> list[str]:
    return [view.incarnation for view in views]


def held(path: Path) -> bool:
    view = read_box(path)
    assert view is not None
    return view.held


def test_what_was_executing_is_known_after_sigkill(directory: Path, holder: Holder) -> None:
    path = holder.create("w-1")
    holder.do(
        "box.set_phase(Phase.ready); box.beat_control(100); box.beat_lane(90); box.lock_tenure(80)\n"
        "box.hold('R1', 7); box.hold('R2', 9)\n"
        "box.lane_thread(17); box.watch_thread(18); box.beat_watch(85); box.collecting(75, 5)\n"
        "box.enter_lane(Place(run_id='R1', workflow='orders', step='charge', op_id='charge#1'), 70_000_001)\n"
        "box.enter_thread(Place(run_id='R2', workflow='mails'), 60_000_000)"
    )
    assert dead_in(directory) == []
    holder.kill()
    [view] = dead_in(directory)
    assert view == read_box(path)
    assert (view.incarnation, view.worker_id, view.pid, view.held) == ("w-1", "w", holder.pid, False)
    assert (view.boot_id, view.created_ms) == (boot_id(), 1_700_000_000_000)
    assert view.parent_pid == os.getpid()
    assert (view.phase, view.exit_reason) == (Phase.ready, "")
    assert (view.control_beat_ms, view.lane_beat_ms, view.store_lock_since_ms) == (100, 90, 80)
    assert (view.role, view.lane_thread, view.watch_thread) == ("plain", 17, 18)
    assert (view.watch_beat_ms, view.gc_since_ms, view.gc_total_ms) == (85, 75, 5)
    assert view.lane == Executing(
        run_id="R1", workflow="orders", step="charge", op_id="charge#1", entries=70_000_001, thread=17
    )
    assert view.lane.since_ms == 70
    assert view.threads == (
        Executing(run_id="R2", workflow="mails", step="", op_id="", entries=60_000_000, thread=holder.pid),
    )
    assert view.in_flight == (Held(run_id="R1", fence=7), Held(run_id="R2", fence=9))
    assert view.threads_complete
    assert view.in_flight_complete


def test_the_process_can_be_told_from_a_later_one_of_its_pid(holder: Holder) -> None:
    path = holder.create("w-1")
    told = Path(f"/proc/{holder.pid}/stat").read_text().rpartition(")")[2].split()[19]
    view = read_box(path)
    assert view is not None
    assert view.start_ticks == int(told)


def test_a_stopped_process_is_not_dead(directory: Path, holder: Holder) -> None:
    path = holder.create("w-1")
    holder.stop()
    assert dead_in(directory) == []
    assert held(path)
    holder.resume()
    assert holder.do("answer = 'on'") == "on"
    holder.kill()
    assert incarnations(dead_in(directory)) == ["w-1"]


@pytest.mark.parametrize(
    "start_another",
    [
        f"answer = os.fork()\nif answer == 0:\n    {WAIT_FOR_SIGNAL}",
        f"answer = subprocess.Popen([sys.executable, '-c', 'import signal; {WAIT_FOR_SIGNAL}'], close_fds=False).pid",
    ],
    ids=["forked", "subprocess"],
)
def test_nobody_inherits_the_lock(directory: Path, holder: Holder, start_another: str) -> None:
    holder.create("w-1")
    heir = holder.outlived_by(start_another)
    assert dead_in(directory) == []
    holder.kill()
    assert incarnations(dead_in(directory)) == ["w-1"]
    os.kill(heir, 0)  # it lives, and holds nothing


def test_a_forked_child_frees_nothing_of_its_parent(directory: Path, holder: Holder) -> None:
    path = holder.create("w-1")
    closing = "box.close(); find_dead(box.path.parents[1], boot_id='0', store_identity='')\n"
    pid = holder.do(f"answer = os.fork()\nif answer == 0:\n    {closing}    os._exit(0)\nos.waitpid(answer, 0)")
    wait_gone(pid)
    assert held(path)
    assert dead_in(directory) == []


def test_a_forked_child_can_see_that_its_parent_is_dead(directory: Path, holder: Holder) -> None:
    holder.create("w-1")
    looking = f"find_dead(Path({str(directory)!r}), boot_id={boot_id()!r}, store_identity={STORE!r})"
    told = directory / "told"
    heir = holder.outlived_by(
        "ours, parents = os.pipe()\nanswer = os.fork()\n"
        "if answer == 0:\n"
        "    os.close(parents)\n"
        "    os.read(ours, 1)\n"  # ends when the parent does
        f"    Path({str(told)!r}).write_text(str(len({looking})))\n"
        "    os._exit(0)"
    )
    holder.kill()
    wait_gone(heir)
    assert told.read_text() == "1"


def test_a_holder_with_the_gil_held_can_be_read(holder: Holder) -> None:
    path = holder.create("w-1")
    holder.send(
        "box.enter_lane(Place(run_id='R1', workflow='orders', step='parse#1'), 70)\n"
        "print('1', flush=True)\nre.match('(a+)+b', 'a' * 64)"
    )
    assert holder.answer() == 1
    view = read_box(path)
    assert view is not None
    assert view.held
    assert isinstance(view.lane, Executing)
    assert view.lane.step == "parse#1"


def test_what_is_read_while_it_is_written_is_whole_or_unknown(holder: Holder) -> None:
    path = holder.create("w-1")
    holder.do(
        "import threading\nends = threading.Event()\n"
        "places = [Place(run_id=c * 128, workflow=c * 64, step=c * 96) for c in 'xy']\n"
        "def write():\n"
        "    n = 0\n"
        "    while not ends.is_set():\n"
        "        n += 1\n"
        "        box.enter_lane(places[n % 2], n)\n"
        "        n % 5 or box.leave_lane()\n"
        "writer = threading.Thread(target=write)\nwriter.start()"
    )
    seen = [view.lane for _ in range(400) if (view := read_box(path))]
    holder.do("ends.set(); writer.join()")
    assert len(seen) == 400
    spans = [lane for lane in seen if isinstance(lane, Executing)]
    assert spans
    for span in spans:
        letter = "xy"[span.entries % 2]
        assert (span.run_id, span.workflow, span.step) == (letter * 128, letter * 64, letter * 96)


def test_a_pid_that_lives_again_does_not_hide_a_death(directory: Path, holder: Holder) -> None:
    path = holder.create("w-1")
    holder.kill()
    image = bytearray(path.read_bytes())
    body = layout.HEAD.unpack_from(image, layout.HEAD_AT + layout.SEAL.size)
    reused = layout.sealed(layout.HEAD.pack(*body[:5], os.getpid(), *body[6:]))
    image[layout.HEAD_AT : layout.HEAD_AT + len(reused)] = reused
    path.write_bytes(image)
    [view] = dead_in(directory)
    assert view.pid == os.getpid()


def test_own_boxes_are_never_opened(directory: Path, box: BlackBox, holder: Holder) -> None:
    os.link(box.path, box.path.with_name("linked.box"))
    box.path.with_name("named.box").symlink_to(box.path)
    assert dead_in(directory) == []
    for name in ("own.box", "linked.box"):
        view = read_box(box.path.with_name(name))
        assert view is not None
        assert view.held
    # Had this process opened and closed any name of the file, another one would now see the lock free.
    assert holder.do(f"answer = read_box(Path({str(box.path)!r})).held") is True


def test_the_dead_of_another_store_are_left_to_others(directory: Path, start: Callable[[], Holder]) -> None:
    for name, store in (("w-1", STORE), ("w-2", "valkey://elsewhere")):
        holder = start()
        holder.create(name, store)
        holder.kill()
    assert incarnations(dead_in(directory)) == ["w-1"]
    assert incarnations(dead_in(directory, "valkey://elsewhere")) == ["w-2"]


def test_boxes_of_another_boot_are_removed_unless_held(directory: Path, start: Callable[[], Holder]) -> None:
    dead, living = start(), start()
    stale, kept = dead.create("w-1"), living.create("w-2")
    dead.kill()
    later_boot = "00000000-0000-4000-8000-000000000000"
    assert find_dead(directory, boot_id=later_boot, store_identity=STORE) == []
    assert not stale.exists()
    assert kept.exists()


def test_two_may_bury_at_once(directory: Path, start: Callable[[], Holder]) -> None:
    dead, other = start(), start()
    path = dead.create("w-1")
    dead.kill()
    find = f"found = find_dead(Path({str(directory)!r}), boot_id={boot_id()!r}, store_identity={STORE!r})"
    assert other.do(f"{find}\nanswer = len(found)") == 1
    [view] = dead_in(directory)
    remove(view)
    other.do("remove(found[0])")
    assert not path.exists()
    assert dead_in(directory) == []
