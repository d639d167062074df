import pytest

from contracts.units import format_bytes, parse_bytes


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("17", 17),
        ("17B", 17),
        ("20MB", 20_000_000),
        ("1.5 GB", 1_500_000_000),
        ("512KiB", 524_288),
        ("1kB", 1000),
        ("3GiB", 3 * 2**30),
    ],
)
def test_sizes(text: str, value: int) -> None:
    assert parse_bytes(text) == value
    assert parse_bytes(text, rate=True) == value


def test_a_rate_may_say_per_second_and_a_size_may_not() -> None:
    assert parse_bytes("20MB/s", rate=True) == 20_000_000
    with pytest.raises(ValueError, match="not a size"):
        parse_bytes("20MB/s")


@pytest.mark.parametrize(
    "text", ["", "MB", "-1MB", "1XB", "1e9", "1 MB / s", "٣MB", "0.3B", "99999999999999TB", "nan"]
)
def test_nonsense_is_refused_with_the_text_in_the_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=f"'{text}'"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (12_500_000, "12.5 MB"),
        (999_900_000, "1000 MB"),
        (10**9, "1 GB"),
        (10**15, "1000 TB"),
    ],
)
def test_sizes_for_people(value: int, text: str) -> None:
    assert format_bytes(value) == text
    assert format_bytes(value, rate=True) == text + "/s"
