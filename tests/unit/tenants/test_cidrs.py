"""Whitelist entries."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenants.rules.cidrs import normalise, normalise_all


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("10.1.2.3", "10.1.2.3/32"),
        (" 10.1.2.3/8 ", "10.0.0.0/8"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("::1", "::1/128"),
        ("2001:DB8::5/32", "2001:db8::/32"),
        ("::ffff:1.2.3.4", "1.2.3.4/32"),
        ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
        ("::/0", "::/0"),
    ],
)
def test_one_written_form(text: str, written: str) -> None:
    assert normalise(text) == written


@pytest.mark.parametrize(
    "text",
    [
        "",
        "host",
        "10.0.0.0/33",
        "10.0.0.0/",
        "10.0.0.0/255.0.0.0",
        "10.0.0/8",
        "fe80::1%eth0",
        "1.2.3.4/-1",
        "/8",
    ],
)
def test_what_is_no_entry(text: str) -> None:
    with pytest.raises(ValueError, match="is not an address or CIDR"):
        normalise(text)


@given(st.ip_addresses(), st.integers(0, 32))
def test_writing_twice_changes_nothing_and_keeps_the_address(address: object, prefix: int) -> None:
    written = normalise(f"{address}/{prefix}")
    assert normalise(written) == written
    own = ipaddress.ip_address(str(address))
    assert (getattr(own, "ipv4_mapped", None) or own) in ipaddress.ip_network(written) or prefix < 96


def test_all_faults_at_once_with_their_places() -> None:
    kept, faults = normalise_all(["10.0.0.0/8", "x", "10.9.9.9/8", "y"], "cidrs")
    assert kept == ("10.0.0.0/8",)
    assert [fault.field for fault in faults] == ["cidrs.1", "cidrs.3"]


def test_at_most_512_entries() -> None:
    every = [f"10.0.{n // 256}.{n % 256}" for n in range(513)]
    assert normalise_all(every[:512], "cidrs")[1] == []
    assert [fault.field for fault in normalise_all(every, "cidrs")[1]] == ["cidrs"]
