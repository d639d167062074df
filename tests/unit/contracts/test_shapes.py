"""Patterns that the API's document says: they admit what Python's own parsers take, and nothing else."""

import ipaddress
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from contracts.shapes import ADDRESS, BASE_URL_SHAPE, CIDR, HOST_PORT, LETTER, WORD_LETTER, matching

_GROUPS = st.sampled_from(["", "0", "1", "ab12", "FFFF", "12345", "g", "1.2.3.4", "1.2.3", "::"])
_TEXTS = (
    st.lists(_GROUPS, max_size=10).map(":".join)
    | st.lists(st.sampled_from(["0", "00", "9", "19", "99", "199", "255", "256", "-1"]), max_size=5).map(
        ".".join
    )
    | st.text("0123456789abcdefABCDEF:.g", max_size=20)
    | st.ip_addresses().map(str)
)


def _takes(parse: Callable[[str], Any], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


@given(_TEXTS)
@example("1:2:3:4:5:6:7::")
@example("::1:2:3:4:5:6:7")
@example("1:2:3:4:5:6:1.2.3.4")
@example("::ffff:1.2.3.4")
@example("1::2::3")
def test_addresses_are_those_that_python_takes(text: str) -> None:
    assert (re.fullmatch(ADDRESS, text) is not None) == _takes(ipaddress.ip_address, text)


@given(_TEXTS, st.sampled_from(["", "/0", "/8", "/32", "/33", "/99", "/128", "/129", "/", "/-1", "/8 "]))
def test_networks_are_those_that_python_takes(text: str, prefix: str) -> None:
    entry = text + prefix
    is_one = _takes(lambda given: ipaddress.ip_network(given, strict=False), entry)
    assert (re.fullmatch(CIDR, entry) is not None) == is_one


@pytest.mark.parametrize("text", ["a:1", "kafka-1.example.com:65535", "[::1]:9092", "10.0.0.1:9092"])
def test_hosts_with_ports(text: str) -> None:
    assert re.fullmatch(HOST_PORT, text)


@pytest.mark.parametrize(
    "text", ["a", "a:", ":1", "a:0", "a:65536", "a:01", "a b:1", "a\n:1", "::1:9092", "é:1"]
)
def test_what_is_no_host_with_a_port(text: str) -> None:
    assert not re.fullmatch(HOST_PORT, text)


@pytest.mark.parametrize(
    "url", ["https://r.example.com", "HTTP://r:8081/apis/ccompat/v7", "http://[::1]:80/"]
)
def test_urls_of_registries(url: str) -> None:
    assert matching(BASE_URL_SHAPE).match(url)


@pytest.mark.parametrize(
    "url",
    ["", "ftp://r", "http://", "http://u:p@r", "http://r/?a=b", "http://r/#a", "http://r/ a", "http://r\n"],
)
def test_what_is_no_url_of_a_registry(url: str) -> None:
    assert not matching(BASE_URL_SHAPE).match(url)


@pytest.mark.parametrize(
    "hidden", ["\0", "\x1f", "\x7f", "\x85", "\xad", "\u200b", "\u202e", "\u2066", "\ufeff"]
)
def test_what_hides_or_turns_others_is_no_letter(hidden: str) -> None:
    assert not re.fullmatch(LETTER, hidden)
    assert not re.fullmatch(WORD_LETTER, hidden)


def test_letters_of_all_scripts_are_some() -> None:
    assert re.fullmatch(f"{LETTER}+", "Zahlung é ж 支払い 🙂")
    assert not re.fullmatch(WORD_LETTER, " ")
