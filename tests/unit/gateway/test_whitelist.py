"""Who may connect."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.rules.whitelist import Whitelist, shown_address


@pytest.mark.parametrize(
    ("cidr", "address", "admitted"),
    [
        ("10.0.0.0/8", "10.255.0.1", True),
        ("10.0.0.0/8", "11.0.0.1", False),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.77/24", "10.0.0.1", True),  # host bits are forgiven
        ("10.0.0.0/8", "::ffff:10.1.2.3", True),
        ("::ffff:10.0.0.0/104", "10.1.2.3", True),
        ("2001:db8::/32", "2001:db8::1", True),
        ("2001:db8::/32", "2001:db9::1", False),
        ("fe80::/10", "fe80::1%eth0", True),
        ("0.0.0.0/0", "1.2.3.4", True),
        ("0.0.0.0/0", "::1", False),
        ("::/0", "1.2.3.4", False),
        ("10.0.0.0/8", "no address", False),
    ],
)
def test_one_entry(cidr: str, address: str, admitted: bool) -> None:
    assert Whitelist([cidr]).admits(address) is admitted


def test_an_empty_list_admits_nobody_and_allow_all_everybody() -> None:
    assert not Whitelist([]).admits("127.0.0.1")
    assert Whitelist([], allow_all=True).admits("::1")


def test_what_is_no_cidr_admits_nobody_and_is_named() -> None:
    whitelist = Whitelist(["10.0.0.0/33", "10.0.0.0/8"])
    assert whitelist.admits("10.0.0.1") and not whitelist.admits("11.0.0.1")
    assert len(whitelist.faults) == 1 and "10.0.0.0/33" in whitelist.faults[0]


@given(st.ip_addresses(v=4), st.integers(0, 32))
def test_folding_makes_no_difference(address: object, prefix: int) -> None:
    plain, mapped = Whitelist([f"{address}/{prefix}"]), Whitelist([f"::ffff:{address}/{96 + prefix}"])
    for whitelist in (plain, mapped):
        assert whitelist.admits(str(address)) and whitelist.admits(f"::ffff:{address}")


def test_addresses_are_shown_folded() -> None:
    assert shown_address("::ffff:10.0.0.1") == "10.0.0.1"
    assert shown_address("fe80::1%lo") == "fe80::1"
