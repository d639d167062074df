"""Whether a cluster of Apache Kafka can be used, from what the console and gateways find. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from contracts.specs import GatewayClusterReport
from contracts.upstream import ClusterTrouble


class Illness(NamedTuple):
    """Why a cluster cannot be used."""

    cause: ClusterTrouble
    says: str
    """For operators: it names addresses and users."""


def illness(own: Illness | None, gateways: Mapping[str, GatewayClusterReport]) -> Illness | None:
    """What the console found goes before what gateways did: those have the same reason, mostly. `gateways`
    are those that cannot use it, by name."""
    if own is not None or not gateways:
        return own
    first = gateways[min(gateways)]
    who = ", ".join(sorted(gateways))
    return Illness(first.trouble, f"not for {who}, which cannot use it: {first.says}")
