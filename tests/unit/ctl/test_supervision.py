"""When a process is said to hang, and how logs stay small."""

from pathlib import Path

from ctl.stack.liveness import Liveness
from ctl.stack.log_files import rotate


def test_a_process_hangs_that_served_and_says_nothing() -> None:
    life = Liveness(3)
    assert not any(life.look(is_serving=False) for _ in range(10)), "it is still reading its logs"
    assert [life.look(is_serving=True) for _ in range(3)] == [False] * 3
    life.beat()
    assert [life.look(is_serving=True) for _ in range(4)] == [False, False, False, True]


def test_a_process_hangs_when_one_of_its_loops_does() -> None:
    life = Liveness(2)
    life.beat("internal")
    for _ in range(2):
        assert not life.look(is_serving=True)
        life.beat()
    assert life.look(is_serving=True)


def test_nobody_hangs_where_that_is_switched_off() -> None:
    life = Liveness(0)
    assert not any(life.look(is_serving=True) for _ in range(1000))


def test_a_log_is_cut_while_its_writer_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "broker-1.log"
    with path.open("ab", buffering=0) as writer:
        for number in range(60):
            writer.write(b"%02d" % number * 10 + b"\n")
            rotate(path, size_bytes_max=200, files_kept=3)
        writer.write(b"last\n")
    files = sorted(tmp_path.iterdir())
    assert [each.name for each in files] == [path.name, *(f"{path.name}.{n}" for n in (1, 2, 3))]
    assert all(each.stat().st_size <= 200 + 21 for each in files)
    newest = b"".join(each.read_bytes() for each in [files[3], files[2], files[1], files[0]]).split()
    assert newest[-1] == b"last"
    assert newest[:-1] == [b"%02d" % number * 10 for number in range(60 - len(newest) + 1, 60)]


def test_a_small_log_and_none_at_all_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("x" * 100)
    assert not rotate(tmp_path / "a.log", size_bytes_max=100)
    assert not rotate(tmp_path / "b.log")
    assert [each.name for each in tmp_path.iterdir()] == ["a.log"]


def test_a_full_disk_costs_old_lines_and_no_room(tmp_path: Path) -> None:
    """What the copy would be written to refuses every byte."""
    path = tmp_path / "a.log"
    path.write_text("x" * 300)
    (tmp_path / "a.log.1").symlink_to("/dev/full")
    assert rotate(path, size_bytes_max=100, files_kept=1)
    assert path.stat().st_size == 0
    assert [each.name for each in tmp_path.iterdir()] == ["a.log"]
