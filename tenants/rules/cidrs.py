"""Whitelist entries: parsed, folded and written one way, so that equal entries compare equal. Pure."""

import ipaddress
from collections.abc import Iterable
from typing import Final

from contracts.shapes import CIDR, matching
from tenants.rules.errors import Conflict, Invalid
from tenants.rules.lifecycle import WHITELIST_ENTRIES_MAX, Fault, unfit
from tenants.rules.model import Instance

TOPIC_WHITELISTS_MAX: Final = 1_000
"""Topics of an instance that have a whitelist of their own."""

CIDR_SHAPE: Final = f"^ *{CIDR} *$"
"""What an entry looks like as it is given."""
_GIVEN: Final = matching(CIDR_SHAPE)
_MAPPED: Final = ipaddress.IPv6Network("::ffff:0:0/96")


def normalise(text: str) -> str:
    """An entry in its one written form: `10.1.2.3/8` is 10.0.0.0/8, an address its /32 or /128, and
    IPv4 mapped into IPv6 is IPv4.

    Raises: ValueError with a sentence.
    """
    if _GIVEN.match(text) is None:
        raise ValueError(f"'{text[:80]}' is not an address or CIDR such as 10.0.0.0/8 or 2001:db8::/32")
    network = ipaddress.ip_network(text.strip(" "), strict=False)
    if isinstance(network, ipaddress.IPv6Network) and network.subnet_of(_MAPPED):
        packed = network.network_address.packed[-4:]
        network = ipaddress.IPv4Network((packed, network.prefixlen - 96))
    return str(network)


def normalise_all(entries: Iterable[str], field: str) -> tuple[tuple[str, ...], list[Fault]]:
    """All entries normalised without repetitions, in order, and the faults of those that are none."""
    kept: dict[str, None] = {}
    faults = []
    for index, entry in enumerate(entries):
        try:
            kept[normalise(entry)] = None
        except ValueError as error:
            faults.append(Fault(f"{field}.{index}", str(error)))
    if len(kept) > WHITELIST_ENTRIES_MAX:
        faults.append(Fault(field, f"at most {WHITELIST_ENTRIES_MAX} entries, not {len(kept)}"))
    return tuple(kept), faults


def with_added(present: Iterable[str], added: Iterable[str]) -> tuple[str, ...]:
    """Entries in their written form, each once. Raises: Invalid where there are too many."""
    kept = tuple(dict.fromkeys((*present, *added)))
    if len(kept) > WHITELIST_ENTRIES_MAX:
        raise Invalid([unfit("add", f"at most {WHITELIST_ENTRIES_MAX} entries, not {len(kept)}")])
    return kept


def with_topic_whitelist(instance: Instance, topic: str, entries: tuple[str, ...] | None) -> Instance:
    """A topic's own list; None: it has the instance's. Raises: Conflict where there are too many."""
    lists = dict(instance.topic_whitelists)
    lists.pop(topic, None)
    if entries is not None:
        lists[topic] = entries
    if len(lists) > TOPIC_WHITELISTS_MAX:
        raise Conflict(f"at most {TOPIC_WHITELISTS_MAX} topics may have their own list")
    return instance.with_(topic_whitelists=lists)
