"""What a stranger may spend at an HTTP port, as decisions."""

import pytest

from runtime.http_limits import Door, HeadReader, HeadRefused, HttpLimits, holder_of, parse_proxies

LIMITS = HttpLimits(
    port="public",
    head_bytes_max=200,
    line_bytes_max=100,
    header_lines_max=3,
    connections_max=6,
    connections_per_address_max=3,
    proxies=("10.9.0.0/16",),
)
REQUEST = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"


def test_a_head_is_given_whole_however_it_is_cut() -> None:
    for cut in range(len(REQUEST)):
        reader = HeadReader(LIMITS)
        first = reader.take(REQUEST[:cut]) if cut else None
        assert first is None
        assert reader.take(REQUEST[cut:] + b"body") == (REQUEST, b"body")
        assert reader.is_empty


def test_bare_line_feeds_end_a_head_too() -> None:
    assert HeadReader(LIMITS).take(b"GET / HTTP/1.1\n\nrest") == (b"GET / HTTP/1.1\n\n", b"rest")


@pytest.mark.parametrize("step", [1, 7, 10_000])
@pytest.mark.parametrize(
    ("sent", "cause"),
    [
        (b"GET / HTTP/1.1\r\nx: " + b"a" * 10_000, "line_bytes"),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 5_000, "header_lines"),
        (b"GET / HTTP/1.1\r\n" + (b"x: " + b"a" * 90 + b"\r\n") * 3 + b"\r\n", "head_bytes"),
    ],
)
def test_a_head_beyond_its_bounds_is_refused_before_it_is_complete(
    sent: bytes, cause: str, step: int
) -> None:
    reader = HeadReader(LIMITS)
    refused: HeadRefused | None = None
    taken = 0
    while refused is None:
        try:
            assert reader.take(sent[taken : taken + step]) is None
        except HeadRefused as error:
            refused = error
        taken += step
    assert refused.cause in (cause, "head_bytes")
    assert taken <= LIMITS.head_bytes_max + step


def test_a_complete_head_is_checked_as_an_unfinished_one_is() -> None:
    for head in (
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 4 + b"\r\n",
        b"GET /" + b"a" * 100 + b" HTTP/1.1\r\n\r\n",
    ):
        with pytest.raises(HeadRefused):
            HeadReader(LIMITS).take(head)
    at_the_bound = b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 3 + b"\r\n"
    assert HeadReader(LIMITS).take(at_the_bound) == (at_the_bound, b"")


def test_what_is_no_request_goes_to_the_parser_at_once() -> None:
    assert HeadReader(LIMITS).take(b"\x16\x03\x01") == (b"\x16\x03\x01", b"")


def test_a_full_address_makes_room_with_its_own_oldest_one() -> None:
    door = Door(LIMITS)
    for name in ("a1", "a2", "a3"):
        assert door.enter(name, "127.0.0.1") == (True, None)
    assert door.enter("b1", "127.0.0.2") == (True, None)
    assert door.enter("a4", "127.0.0.1") == (True, "a1")
    assert len(door) == 4


def test_requests_under_way_are_never_cut_for_a_newcomer() -> None:
    door = Door(LIMITS)
    for name in ("a1", "a2", "a3"):
        door.enter(name, "127.0.0.1")
        door.begins(name)
    assert door.enter("a4", "127.0.0.1") == (False, None)
    door.is_answered("a2")
    assert door.enter("a5", "127.0.0.1") == (True, "a2")


def test_those_that_were_never_served_go_first() -> None:
    door = Door(LIMITS)
    door.enter("served", "127.0.0.1")
    door.begins("served")
    door.is_answered("served")
    door.enter("half", "127.0.0.1")
    door.enter("half too", "127.0.0.1")
    assert door.enter("new", "127.0.0.1") == (True, "half")


def test_a_full_port_takes_from_the_address_that_has_most_waiting() -> None:
    door = Door(LIMITS)
    for number in range(3):
        door.enter(f"a{number}", "127.0.0.1")
    for number in range(2):
        door.enter(f"b{number}", "127.0.0.2")
    door.enter("c0", "127.0.0.3")
    assert len(door) == LIMITS.connections_max
    assert door.enter("d0", "127.0.0.4") == (True, "a0")
    assert len(door) == LIMITS.connections_max


def test_a_proxy_speaks_for_many() -> None:
    door = Door(LIMITS)
    assert [door.enter(number, "10.9.0.1").is_admitted for number in range(6)] == [True] * 6
    assert door.enter(6, "10.9.0.1") == (True, 0)


def test_leaving_is_counted_once() -> None:
    door = Door(LIMITS)
    door.enter("a", "127.0.0.1")
    for _ in range(2):
        door.leave("a")
    door.is_answered("a")
    assert len(door) == 0
    assert [door.enter(number, "127.0.0.1") for number in range(3)] == [(True, None)] * 3


def test_one_customer_of_a_network_is_one_holder() -> None:
    assert holder_of("2001:db8:1:2::7") == holder_of("2001:db8:1:2:ffff::1") != holder_of("2001:db8:1:3::7")
    assert holder_of("::ffff:10.0.0.1") == holder_of("10.0.0.1")
    assert holder_of("unknown") == "unknown"


def test_proxies_are_addresses_and_cidrs() -> None:
    assert parse_proxies("10.0.0.1, 10.1.0.0/16,::1") == ("10.0.0.1", "10.1.0.0/16", "::1")
    assert parse_proxies("") == ()
    with pytest.raises(ValueError, match="'proxy' is not an address or CIDR"):
        parse_proxies("10.0.0.1,proxy")
