"""What a follower finds on its disk again: all it has taken, or what it had taken before its last words."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.specs import Deletion, FeedResponse, InstanceSpec, InstanceState
from runtime import spec_file
from runtime.spec_book import OutOfStepError, SpecBook
from runtime.spec_file import SpecFile, Taken


def spec(number: int, revision: int, state: InstanceState = InstanceState.ACTIVE) -> InstanceSpec:
    gone = state is not InstanceState.ACTIVE
    return InstanceSpec(
        revision=revision,
        instance_id=f"i{number:011}",
        tenant="t",
        name="n",
        state=state,
        cluster_id="c",
        produce_rate_bytes_per_s=1,
        consume_rate_bytes_per_s=1,
        capacity_bytes=1,
        deletion=Deletion(deleted_at_ms=1, purge_after_ms=2, lineage="one", confirmed=False)
        if gone
        else None,
    )


def answer(revision: int, *specs: InstanceSpec, **more: Any) -> FeedResponse:
    known = {"feed_id": "one", "full": False, "continues": True, **more}
    return FeedResponse(revision=revision, instances=specs, **known)


def keep(file: SpecFile, book: SpecBook, taken: Taken) -> None:
    """As a follower does."""
    book.take(taken.answer, taken.at_ms)
    if not file.add(taken):
        file.write(book.save())


ANSWERS = st.builds(
    lambda number, state, full: (number, state, full),
    st.integers(0, 3),
    st.sampled_from([InstanceState.ACTIVE, InstanceState.DELETED, InstanceState.PURGED]),
    st.integers(0, 9).map(lambda one: one == 0),
)


@given(st.lists(ANSWERS, min_size=1, max_size=12), st.floats(0, 1))
def test_a_file_that_ends_anywhere_holds_what_was_taken_up_to_there(
    answers: list[tuple[int, InstanceState, bool]], share: float
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "specs.json"
        book, file = SpecBook(), SpecFile(path)
        states = []
        for at, (number, state, full) in enumerate(answers, start=1):
            taken = Taken("", at, answer(at, spec(number, at, state), full=full, continues=not full))
            keep(file, book, taken)
            states.append(book.save())
        again = SpecFile(path).load()
        assert again is not None
        assert again.save() == states[-1]
        changes = path.with_name("specs.json.changes")
        if changes.exists():
            content = changes.read_bytes()
            changes.write_bytes(content[: int(len(content) * share)])
        torn = SpecFile(path).load()
        assert torn is not None
        assert torn.save() in states
        later = SpecFile(path)
        assert later.load() is not None
        keep(later, torn, Taken("", 99, answer(99, spec(7, 99))))
        after = SpecFile(path).load()
        assert after is not None
        assert after.save() == torn.save(), "what comes behind a torn end is found"


def test_a_change_writes_its_own_size_however_many_instances_there_are(tmp_path: Path) -> None:
    path = tmp_path / "specs.json"
    book, file = SpecBook(), SpecFile(path)
    keep(file, book, Taken("", 1, answer(1, *(spec(each, 1) for each in range(2_000)), full=True)))
    before = path.stat()
    for revision in range(2, 7):
        keep(file, book, Taken("", revision, answer(revision, spec(5, revision))))
    after = path.stat()
    assert (after.st_ino, after.st_size) == (before.st_ino, before.st_size)
    assert path.with_name("specs.json.changes").stat().st_size < before.st_size / 100
    again = SpecFile(path).load()
    assert again is not None
    assert again.save() == book.save()


def test_changes_of_an_earlier_writing_are_not_taken(tmp_path: Path) -> None:
    """The process was killed between writing everything and dropping the lines before it."""
    path, changes = tmp_path / "specs.json", tmp_path / "specs.json.changes"
    book, file = SpecBook(), SpecFile(path)
    keep(file, book, Taken("", 1, answer(1, spec(0, 1), full=True)))
    keep(file, book, Taken("", 2, answer(2, spec(1, 2), full=True)))  # by which 0 is absent
    shutil.copy(changes, tmp_path / "old")
    book.take(answer(3, spec(0, 3)), 3)
    file.write(book.save())
    shutil.copy(tmp_path / "old", changes)
    again = SpecFile(path).load()
    assert again is not None
    assert again.absent == {}
    assert again.save() == book.save()


def test_lines_that_outgrow_the_rest_are_written_into_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spec_file, "_CHANGES_BYTES_MIN", 500)
    path = tmp_path / "specs.json"
    book, file = SpecBook(), SpecFile(path)
    sizes = []
    for revision in range(1, 100):
        keep(file, book, Taken("", revision, answer(revision, spec(0, revision))))
        sizes.append(sum(each.stat().st_size for each in tmp_path.iterdir()))
    assert max(sizes) < 10_000
    again = SpecFile(path).load()
    assert again is not None
    assert again.save() == book.save()


def test_half_a_line_is_not_added_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "specs.json"
    book, file = SpecBook(), SpecFile(path)
    keep(file, book, Taken("", 1, answer(1, spec(0, 1), full=True)))

    def full_disk(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full_disk)
        with pytest.raises(OSError, match="No space"):
            keep(file, book, Taken("", 2, answer(2, spec(1, 2))))
    with path.with_name("specs.json.changes").open("ab") as half:
        half.write(b'{"written": "')
    keep(file, book, Taken("", 3, answer(3, spec(2, 3))))
    again = SpecFile(path).load()
    assert again is not None
    assert again.save() == book.save()


def test_no_file_and_one_that_cannot_be_read_are_none(tmp_path: Path) -> None:
    path = tmp_path / "specs.json"
    assert SpecFile(path).load() is None
    path.write_bytes(b'{"feed_id": 1')
    assert SpecFile(path).load() is None


def test_an_answer_out_of_step_in_the_lines_ends_them(tmp_path: Path) -> None:
    path = tmp_path / "specs.json"
    book, file = SpecBook(), SpecFile(path)
    keep(file, book, Taken("", 5, answer(5, spec(0, 5), full=True)))
    file.add(Taken("", 6, answer(4, spec(1, 4))))
    with pytest.raises(OutOfStepError):
        book.take(answer(4, spec(1, 4)), 6)
    again = SpecFile(path).load()
    assert again is not None
    assert again.save() == book.save()
