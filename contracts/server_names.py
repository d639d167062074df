"""Host names of instances, where one port serves all that speak TLS: the name in a client's hello says which
instance and broker it means (RFC 6066)."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from contracts.specs import Listener
from contracts.users import SecurityProtocol

_DOMAIN_CHARACTERS_MAX: Final = 180
"""So that no host name is longer than the 253 of DNS."""
_DOMAIN: Final = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)(\.(?!-)[a-z0-9-]{1,63}(?<!-))*\Z")
_PREFIXES: Final = {SecurityProtocol.SASL_SSL: "", SecurityProtocol.TLS: "tls-"}
"""By how clients come in. A name keeps its meaning when an instance gets a listener of the other kind."""


class NamedPort(NamedTuple):
    """The port, and the domain of the names that lead to it."""

    domain: str
    port: int
    bind_host: str = ""


def parse_domain(text: str) -> str:
    """A DNS domain, in lower case and without a dot at its end. Raises: ValueError with a sentence."""
    domain = text.lower().removesuffix(".")
    if len(domain) > _DOMAIN_CHARACTERS_MAX or _DOMAIN.match(domain) is None:
        raise ValueError(f"'{text}' is no DNS domain of at most {_DOMAIN_CHARACTERS_MAX} characters")
    if domain.rpartition(".")[2].isdigit():
        raise ValueError(f"'{text}' ends like an IP address")
    return domain


def host_name(instance_id: str, node_id: int | None, security_protocol: SecurityProtocol, domain: str) -> str:
    """The name of an instance (`node_id` None), or of one of its brokers. One label more than the domain has:
    a certificate for `*.<domain>` is good for all."""
    of_broker = "" if node_id is None else f"b{node_id}-"
    return f"{_PREFIXES[security_protocol]}{of_broker}{instance_id}.{domain}"


def named_listeners(
    instance_id: str, listeners: Iterable[Listener], place: NamedPort | None
) -> tuple[Listener, ...]:
    """The encrypted ones once more, as clients see them that come to the named port."""
    if place is None:
        return ()
    return tuple(
        Listener(
            node_id=one.node_id,
            bind_host=place.bind_host,
            advertised_host=host_name(instance_id, one.node_id, one.security_protocol, place.domain),
            port=place.port,
            security_protocol=one.security_protocol,
        )
        for one in listeners
        if one.security_protocol.is_encrypted
    )
