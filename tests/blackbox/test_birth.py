"""Birth and end of a box: whole and locked from its first moment, nothing left where it failed or ended well."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pyrula_runtime.blackbox import NOBODY, BlackBox, Phase, Place, find_dead, layout, read_box
from pyrula_runtime.core.errors import ConfigurationError
from pyrula_runtime.runtime_dir import boot_id
from tests.blackbox.holder import STORE, Holder


def create(directory: Path, incarnation: str) -> BlackBox:
    return BlackBox.create(directory, incarnation=incarnation, worker_id="w", store_identity=STORE, now_ms=1)


def dead_in(directory: Path) -> list[str]:
    return [view.incarnation for view in find_dead(directory, boot_id=boot_id(), store_identity=STORE)]


def test_a_new_box_knows_everything_and_has_nothing(box: BlackBox) -> None:
    view = read_box(box.path)
    assert view is not None
    assert (view.phase, view.lane) == (Phase.starting, NOBODY)
    assert (view.control_beat_ms, view.lane_beat_ms, view.store_lock_since_ms, view.lane_thread) == (0, 0, 0, 0)
    assert (view.threads, view.threads_complete, view.in_flight, view.in_flight_complete) == ((), True, (), True)
    assert box.path.stat().st_size == layout.SIZE
    assert box.path.stat().st_mode & 0o777 == 0o600
    assert box.path.parent.stat().st_mode & 0o777 == 0o700


def test_a_clean_end_leaves_no_file(directory: Path, box: BlackBox) -> None:
    box.close()
    assert not box.path.exists()
    assert dead_in(directory) == []
    box.close()


def test_any_other_end_is_found_at_once_even_by_the_same_process(directory: Path, box: BlackBox) -> None:
    box.set_phase(Phase.stopping, "loop_failed: claims")
    box.close(clean=False)
    [view] = find_dead(directory, boot_id=boot_id(), store_identity=STORE)
    assert (view.phase, view.exit_reason) == (Phase.stopping, "loop_failed: claims")


def test_a_thread_that_outlives_its_worker_may_still_write(box: BlackBox) -> None:
    slot = box.enter_thread(Place(run_id="R1", workflow="orders"), 5)
    box.close()
    box.leave_thread(slot)
    box.beat_control(6)


def test_an_incarnation_has_one_box(directory: Path, box: BlackBox) -> None:
    with pytest.raises(ConfigurationError, match="File exists"):
        create(directory, "own")
    view = read_box(box.path)
    assert view is not None
    assert view.held
    assert [path.name for path in box.path.parent.iterdir()] == ["own.box"]


def test_of_processes_of_one_incarnation_one_gets_the_box(directory: Path, start: Callable[[], Holder]) -> None:
    rivals = [start() for _ in range(4)]
    for rival in rivals:
        rival.send(
            "try:\n"
            "    box = create('same')\n"
            "    answer = 1\n"
            "except Exception as error:\n"
            "    answer = type(error).__name__"
        )
    assert sorted(str(rival.answer()) for rival in rivals) == ["1", *["ConfigurationError"] * 3]
    view = read_box(layout.box_path(directory, "same"))
    assert view is not None
    assert view.held


def test_threads_create_and_look_for_the_dead_at_once(directory: Path, holder: Holder) -> None:
    def one(number: int) -> BlackBox:
        made = create(directory, f"w-{number}")
        assert dead_in(directory) == []
        return made

    with ThreadPoolExecutor(8) as threads:
        boxes = list(threads.map(one, range(24)))
    paths = [str(box.path) for box in boxes]
    assert holder.do(f"answer = all(read_box(Path(path)).held for path in {paths!r})") is True
    for box in boxes:
        box.close()


def test_sweeps_of_other_processes_lose_no_birth(directory: Path, start: Callable[[], Holder]) -> None:
    sweepers = [start(), start()]
    for sweeper in sweepers:
        sweeper.do(
            "import threading\nends = threading.Event()\n"
            "def sweep():\n"
            "    while not ends.is_set():\n"
            f"        blackbox.holding.sweep(Path({str(directory)!r}) / 'boxes')\n"
            "thread = threading.Thread(target=sweep)\nthread.start()"
        )
    boxes = [create(directory, f"w-{number}") for number in range(150)]
    for sweeper in sweepers:
        sweeper.do("ends.set(); thread.join()")
    paths = [str(box.path) for box in boxes]
    assert sweepers[0].do(f"answer = all(read_box(Path(path)).held for path in {paths!r})") is True
    for box in boxes:
        box.close()


KILL = "lambda *args: os.kill(os.getpid(), 9)"
HALF = "lambda fd, image: (os.write(fd, image[:1000]), os.kill(os.getpid(), 9))"


@pytest.mark.parametrize(
    "fault",
    [f"_write = {HALF}", f"fcntl.lockf = {KILL}", f"mmap.mmap = {KILL}"],
    ids=["half written", "before the lock", "before the rename"],
)
def test_what_a_killed_birth_left_is_swept(directory: Path, holder: Holder, fault: str) -> None:
    holder.send(f"blackbox.holding.{fault}\ncreate('w-1')")
    assert holder.died() == -9
    folder = layout.boxes_in(directory)
    assert [path.name for path in folder.iterdir()] == ["w-1.new"]
    assert dead_in(directory) == []
    assert list(folder.iterdir()) == []


def test_a_birth_under_way_is_not_swept(directory: Path, holder: Holder) -> None:
    holder.send(
        "def paused(fd, image):\n"
        "    print('1', flush=True)\n"
        "    sys.stdin.readline()\n"
        "    os.write(fd, image)\n"
        "blackbox.holding._write = paused\n"
        "box = create('w-1')"
    )
    assert holder.answer() == 1
    assert dead_in(directory) == []
    holder.send("go on")
    holder.answer()
    view = read_box(layout.box_path(directory, "w-1"))
    assert view is not None
    assert view.held


def test_a_full_file_system_refuses_and_leaves_nothing(directory: Path, holder: Holder) -> None:
    answer = holder.do(
        "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n"
        "    create('w-1')\n"
        "except Exception as error:\n"
        "    answer = f'{type(error).__name__}: {error}'"
    )
    assert answer.startswith("ConfigurationError: black box ")
    assert "File too large" in answer
    assert list(layout.boxes_in(directory).iterdir()) == []


def test_a_directory_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot be made"):
        create(tmp_path / "file", "w-1")


@pytest.mark.parametrize("incarnation", ["", "x" * 49, "a\0b"])
def test_an_incarnation_that_does_not_fit_is_refused(directory: Path, incarnation: str) -> None:
    with pytest.raises(ValueError, match="1 to 48 bytes"):
        create(directory, incarnation)


def test_whatever_an_incarnation_is_called_its_box_stays_in_the_folder(directory: Path) -> None:
    box = create(directory, "../é/.")
    try:
        assert box.path.parent == layout.boxes_in(directory)
        view = read_box(box.path)
        assert view is not None
        assert view.incarnation == "../é/."
    finally:
        box.close()
