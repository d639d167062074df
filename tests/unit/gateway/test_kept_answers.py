"""Answers of Metadata that are kept: what comes out is what a decoded one would be, and memory is bounded."""

import pytest

from contracts.users import SecurityProtocol
from gateway.kept_answers import KEPT_BYTES_MAX, KeptAnswers
from wire.api_table import ApiKey
from wire.throttle_time import behind_field

METADATA = int(ApiKey.METADATA)
PLAIN, SASL = SecurityProtocol.PLAIN, SecurityProtocol.SASL_PLAINTEXT


def frame(version: int, correlation_id: int, throttle_ms: int, said: bytes) -> bytes:
    head = correlation_id.to_bytes(4, "big") + (b"\0" if version >= 9 else b"")
    head += throttle_ms.to_bytes(4, "big") if version >= 3 else b""
    return (len(head) + len(said)).to_bytes(4, "big") + head + said


def said(number: int, size: int = 100) -> bytes:
    return number.to_bytes(4, "big") * (size // 4)


@pytest.mark.parametrize("version", range(12))
def test_each_asker_gets_its_own_head_before_the_same_answer(version: int) -> None:
    kept = KeptAnswers()
    kept.keep(
        PLAIN,
        METADATA,
        version,
        memoryview(frame(version, 1, 0, b"longer form")),
        frame(version, 1, 0, b"form"),
    )
    again = kept.get(PLAIN, METADATA, version, memoryview(frame(version, 7, 250, b"longer form")))
    assert again == frame(version, 7, 250, b"form")


def test_what_was_said_in_another_version_or_otherwise_is_another_answer() -> None:
    kept = KeptAnswers()
    kept.keep(PLAIN, METADATA, 1, memoryview(frame(1, 1, 0, said(1))), frame(1, 1, 0, b"one"))
    assert kept.get(PLAIN, METADATA, 1, memoryview(frame(1, 1, 0, said(2)))) is None
    assert kept.get(PLAIN, METADATA, 0, memoryview(frame(0, 1, 0, said(1)))) is None
    assert kept.get(PLAIN, METADATA, 4, memoryview(frame(4, 1, 0, said(1)))) is None
    assert kept.get(SASL, METADATA, 1, memoryview(frame(1, 1, 0, said(1)))) is None, "other vports"


def test_an_instance_that_asks_for_ever_new_things_holds_no_more_than_it_may() -> None:
    kept = KeptAnswers()
    for number in range(1000):
        kept.keep(
            PLAIN,
            METADATA,
            1,
            memoryview(frame(1, 1, 0, said(number, 4096))),
            frame(1, 1, 0, said(number, 2048)),
        )
        assert kept.size_bytes <= KEPT_BYTES_MAX
    held = [n for n in range(1000) if kept.get(PLAIN, METADATA, 1, memoryview(frame(1, 1, 0, said(n, 4096))))]
    assert held == list(range(1000 - len(held), 1000)), "the latest"
    assert len(held) == KEPT_BYTES_MAX // (4096 + 2048)


def test_what_is_asked_for_again_stays() -> None:
    kept = KeptAnswers()
    wanted = memoryview(frame(1, 1, 0, said(0, 4096)))
    kept.keep(PLAIN, METADATA, 1, wanted, frame(1, 1, 0, b"x"))
    for number in range(1, 200):
        kept.keep(PLAIN, METADATA, 1, memoryview(frame(1, 1, 0, said(number, 4096))), frame(1, 1, 0, b"x"))
        assert kept.get(PLAIN, METADATA, 1, wanted) is not None


def test_what_is_larger_than_all_that_may_be_kept_is_not() -> None:
    kept = KeptAnswers()
    small = memoryview(frame(1, 1, 0, said(1)))
    kept.keep(PLAIN, METADATA, 1, small, frame(1, 1, 0, b"x"))
    large = memoryview(frame(1, 1, 0, said(2, KEPT_BYTES_MAX)))
    kept.keep(PLAIN, METADATA, 1, large, frame(1, 1, 0, b"x"))
    assert kept.get(PLAIN, METADATA, 1, large) is None
    assert kept.get(PLAIN, METADATA, 1, small) is not None


def test_a_change_of_the_instance_forgets_all() -> None:
    kept = KeptAnswers()
    one = memoryview(frame(1, 1, 0, said(1)))
    kept.keep(PLAIN, METADATA, 1, one, frame(1, 1, 0, b"x"))
    kept.forget()
    assert kept.get(PLAIN, METADATA, 1, one) is None
    assert kept.size_bytes == 0


def test_only_apis_whose_throttle_time_comes_first_can_be_kept() -> None:
    with pytest.raises(AssertionError, match="not the first"):
        behind_field(int(ApiKey.PRODUCE), 7)
