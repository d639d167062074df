"""The judge of tier `clients` believes nobody: each way of being wrong is red."""

from pathlib import Path

import pytest

from tests.clients.certificate import Limit, complaints_of
from tests.clients.contract import Answer, Record
from tests.clients.judging import HELD, consumed, stored_codecs, unlike, written
from wire.batch import Record as Stored
from wire.batch import build_batch

WANTED = written("gzip", "v", 6)
RIGHT = [
    Record(partition, offset, *each) for partition in WANTED for offset, each in enumerate(WANTED[partition])
]


def test_what_is_there_holds() -> None:
    assert unlike(RIGHT, WANTED) == HELD
    assert unlike(sorted(RIGHT, key=lambda one: one.offset), WANTED) == HELD, "partitions come side by side"


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(RIGHT[1:], id="lost"),
        pytest.param([*RIGHT, RIGHT[-1]._replace(offset=3)], id="twice"),
        pytest.param([RIGHT[1], RIGHT[0], *RIGHT[2:]], id="out of order"),
        pytest.param([RIGHT[0], RIGHT[0], *RIGHT[1:]], id="the same offset again"),
        pytest.param([RIGHT[0]._replace(value="other"), *RIGHT[1:]], id="another value"),
        pytest.param([RIGHT[0]._replace(header=""), *RIGHT[1:]], id="no header"),
        pytest.param([RIGHT[0]._replace(partition=1, offset=9), *RIGHT[1:]], id="elsewhere"),
        pytest.param([*RIGHT, RIGHT[0]._replace(partition=2)], id="where nothing was sent"),
    ],
)
def test_what_is_not_so_is_red(wrong: list[Record]) -> None:
    assert unlike(wrong, WANTED) != HELD


def _answer(those: list[Record]) -> Answer:
    return Answer(result={"records": [list(one) for one in those]})


def test_a_group_goes_on_where_it_was() -> None:
    first, rest = [RIGHT[0], *RIGHT[3:5]], [*RIGHT[1:3], RIGHT[5]]
    assert consumed([_answer(first), _answer(rest)], [3, 3], WANTED) == [HELD, HELD]
    _, again = consumed([_answer(first), _answer(RIGHT[:3])], [3, 3], WANTED)
    _, skipped = consumed([_answer(first), _answer([RIGHT[2], RIGHT[5]])], [3, 2], WANTED)
    _, few = consumed([_answer(first), _answer(rest[:2])], [3, 3], WANTED)
    lost, _ = consumed([Answer(error="ENDED", text="killed"), _answer(RIGHT)], [3, 6], WANTED)
    assert again and skipped and few and lost.startswith("ENDED")


def test_the_codec_is_that_of_the_batches(tmp_path: Path) -> None:
    stored = [Stored(0, 0, b"k", b"v" * 100)]
    for replica, codecs in (("behind", [0]), ("leader", [0, 1])):  # only headers are read
        (tmp_path / replica).mkdir()
        batches = b"".join(
            bytes(build_batch(stored, base_offset=at, attributes=codec)) for at, codec in enumerate(codecs)
        )
        (tmp_path / replica / "00000000000000000000.log").write_bytes(batches)
    assert stored_codecs([tmp_path / "behind", tmp_path / "leader"]) == ({"none", "gzip"}, 2)


def test_a_limit_covers_what_it_names_and_no_more() -> None:
    limit = Limit("one", ("zstd",), "the client's", "lacks zstd", "has no zstd")
    assert complaints_of([limit], "one", "lane", {"zstd": "lacks zstd", "gzip": HELD}) == []
    assert complaints_of([limit], "one", "lane", {"zstd": "ENDED: crashed"})
    assert complaints_of([limit], "one", "lane", {"gzip": "lacks gzip"})
    assert complaints_of([limit], "two", "lane", {"zstd": "lacks zstd"})
    assert complaints_of([limit], "one", "lane", {"zstd": HELD}), "what holds is no limit any more"
