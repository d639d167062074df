"""Which port comes next."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenants.rules.vports import REST_MS, Endpoint, PortsExhausted, VipPool, allocate, parse_vip

_POOL = parse_vip("127.0.0.1", 100, 102)


def _port(known: dict[int, int | None], now_ms: int = 0, taken: set[int] | None = None) -> int:
    endpoints = {Endpoint("127.0.0.1", port): freed for port, freed in known.items()}
    return allocate(_POOL, endpoints, now_ms, lambda endpoint: endpoint.port not in (taken or set())).port


def test_never_used_ports_go_first_in_order() -> None:
    assert _port({}) == 100
    assert _port({100: None}) == 101
    assert _port({100: 0, 101: None}, now_ms=REST_MS) == 102


def test_a_freed_port_rests_seven_days_and_the_longest_free_goes_first() -> None:
    known = {100: 50, 101: 20, 102: None}
    with pytest.raises(PortsExhausted, match="rest 7 days"):
        _port(known, now_ms=19 + REST_MS)
    assert _port(known, now_ms=20 + REST_MS) == 101
    assert _port(known, now_ms=99 + REST_MS) == 101


def test_ports_of_others_are_skipped() -> None:
    assert _port({}, taken={100, 101}) == 102
    with pytest.raises(PortsExhausted):
        _port({}, taken={100, 101, 102})
    assert _port({100: 1, 101: 2, 102: None}, now_ms=2 + REST_MS, taken={100}) == 101


def test_ports_outside_a_changed_range_are_not_taken_again() -> None:
    assert _port({99: 0, 100: None, 101: None}, now_ms=REST_MS) == 102


@settings(max_examples=60)
@given(st.lists(st.booleans(), max_size=40))
def test_no_endpoint_is_ever_given_twice_while_in_use_or_resting(steps: list[bool]) -> None:
    known: dict[Endpoint, int | None] = {}
    for now_ms, take in enumerate(steps):
        used = [endpoint for endpoint, freed in known.items() if freed is None]
        if take:
            try:
                endpoint = allocate(_POOL, known, now_ms, lambda _: True)
            except PortsExhausted:
                assert len(known) == 3
                continue
            assert endpoint not in known
            known[endpoint] = None
        elif used:
            known[used[0]] = now_ms


def test_vip_forms() -> None:
    assert parse_vip("10.0.0.5", 1, 2) == VipPool(("10.0.0.5",), None, 1, 2)
    named = parse_vip("0.0.0.0=kafka.example.com", 1, 2)
    assert named.hosts == ("0.0.0.0",)
    assert named.advertised_for("0.0.0.0") == "kafka.example.com"
    assert parse_vip("[::1]", 1, 2).hosts == ("::1",)
    assert parse_vip("[::]=[2001:db8::1]", 1, 2).advertised == "2001:db8::1"


def test_a_pool_gives_each_address_the_first_port() -> None:
    pool = parse_vip("10.0.0.0/30", 9092, 9093)
    assert list(pool.endpoints()) == [
        ("10.0.0.1", 9092),
        ("10.0.0.2", 9092),
        ("10.0.0.1", 9093),
        ("10.0.0.2", 9093),
    ]
    assert pool.advertised_for("10.0.0.2") == "10.0.0.2"
    assert len(parse_vip("10.0.0.0/8", 9092, 9092).hosts) == 65_536


@pytest.mark.parametrize("text", ["", "host", "0.0.0.0", "::", "10.0.0.1=", "10.0.0.1/8", "=x"])
def test_what_is_no_vip(text: str) -> None:
    with pytest.raises(ValueError, match="vip"):
        parse_vip(text, 1, 2)


def test_what_is_no_range() -> None:
    for first, last in ((0, 1), (2, 1), (1, 65_536)):
        with pytest.raises(ValueError, match="range"):
            parse_vip("10.0.0.1", first, last)


def test_a_pool_behind_every_address_shares_sockets() -> None:
    pool = parse_vip("0.0.0.0=10.0.0.0/30", 9092, 9093)
    assert pool.has_wildcard
    assert pool.hosts == ("10.0.0.1", "10.0.0.2")
    assert parse_vip("[::]=fd00::/126", 1, 1).hosts == ("fd00::1", "fd00::2", "fd00::3")
    assert not parse_vip("10.0.0.0/30", 9092, 9093).has_wildcard


@pytest.mark.parametrize(
    "text", ["10.0.0.1=10.0.0.0/30", "[::]=10.0.0.0/30", "x=10.0.0.0/30", "0.0.0.0=10.0.0.1/8"]
)
def test_only_every_address_stands_before_a_pool(text: str) -> None:
    with pytest.raises(ValueError, match=r"vip '.*'"):
        parse_vip(text, 1, 1)


def test_a_pool_of_hundreds_of_millions_is_walked_and_not_listed() -> None:
    pool = parse_vip("10.0.0.0/8", 1, 65535)
    assert allocate(pool, {}, 0, lambda _: True, in_order=pool.endpoints(from_end=True)).port == 65535
    assert allocate(pool, {}, 0, lambda _: True) == Endpoint("10.0.0.1", 1)
